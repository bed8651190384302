#include "cache/schema.h"

namespace tenon::cache {
namespace {

// STRICT tables refuse a value of another type than the column's, so that what is read back is
// what it says it is. Times are NULL when there is none (or it was not finite), and NULL is
// never less than anything: it cannot win.
constexpr const char* kVersion1 = R"sql(
CREATE TABLE workload (
  id INTEGER PRIMARY KEY,
  key TEXT NOT NULL,
  program TEXT NOT NULL,
  program_text TEXT NOT NULL,
  program_sha256 TEXT NOT NULL,
  m INTEGER NOT NULL,
  dims TEXT NOT NULL,
  dtype TEXT NOT NULL,
  attributes TEXT NOT NULL,
  UNIQUE (key, m)
) STRICT;
CREATE INDEX workload_by_program ON workload (program);

CREATE TABLE environment (
  id INTEGER PRIMARY KEY,
  device_name TEXT NOT NULL,
  device_class TEXT NOT NULL,
  sm_count INTEGER NOT NULL,
  driver TEXT NOT NULL,
  nvrtc TEXT NOT NULL,
  tenon TEXT NOT NULL,
  UNIQUE (device_name, device_class, sm_count, driver, nvrtc, tenon)
) STRICT;

CREATE TABLE mugraph (
  id INTEGER PRIMARY KEY,
  sha256 TEXT NOT NULL UNIQUE,
  text TEXT NOT NULL,
  label TEXT NOT NULL,
  program TEXT NOT NULL
) STRICT;

CREATE TABLE schedule (
  id INTEGER PRIMARY KEY,
  sha256 TEXT NOT NULL UNIQUE,
  text TEXT NOT NULL
) STRICT;

CREATE TABLE kernel (
  id INTEGER PRIMARY KEY,
  source_sha256 TEXT NOT NULL,
  source TEXT NOT NULL,
  options TEXT NOT NULL,
  target TEXT NOT NULL,
  nvrtc TEXT NOT NULL,
  cubin BLOB,
  cubin_sha256 TEXT NOT NULL,
  resources TEXT NOT NULL,
  registers INTEGER NOT NULL,
  shared_bytes INTEGER NOT NULL,
  spill_bytes INTEGER NOT NULL,
  compile_seconds REAL,
  status TEXT NOT NULL CHECK (status IN ('ok', 'compile_error')),
  log TEXT NOT NULL,
  CHECK ((cubin IS NULL) = (cubin_sha256 = '')),
  CHECK (status <> 'ok' OR cubin IS NOT NULL),
  UNIQUE (source_sha256, options, target, nvrtc, cubin_sha256)
) STRICT;

CREATE TABLE plan (
  id INTEGER PRIMARY KEY,
  workload INTEGER NOT NULL REFERENCES workload,
  mugraph INTEGER NOT NULL REFERENCES mugraph,
  schedule INTEGER NOT NULL REFERENCES schedule,
  device_class TEXT NOT NULL,
  dependent_launch INTEGER NOT NULL CHECK (dependent_launch IN (0, 1)),
  m_min INTEGER NOT NULL,
  m_max INTEGER NOT NULL,
  uses_library INTEGER NOT NULL CHECK (uses_library IN (0, 1)),
  text TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  UNIQUE (workload, device_class, dependent_launch, m_min, m_max, mugraph, schedule, sha256)
) STRICT;
CREATE INDEX plan_by_mugraph ON plan (mugraph);
CREATE INDEX plan_by_schedule ON plan (schedule);

CREATE TABLE plan_kernel (
  plan INTEGER NOT NULL REFERENCES plan,
  position INTEGER NOT NULL,
  kernel INTEGER NOT NULL REFERENCES kernel,
  PRIMARY KEY (plan, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX plan_kernel_by_kernel ON plan_kernel (kernel);

CREATE TABLE evidence (
  id INTEGER PRIMARY KEY,
  mugraph INTEGER NOT NULL REFERENCES mugraph,
  plan INTEGER REFERENCES plan,
  program_sha256 TEXT NOT NULL,
  method TEXT NOT NULL,
  verdict TEXT NOT NULL
    CHECK (verdict IN ('pass', 'proved', 'refuted', 'unknown', 'timeout', 'unsupported')),
  reason TEXT NOT NULL,
  figures TEXT NOT NULL,
  counterexample TEXT NOT NULL,
  seconds REAL,
  created TEXT NOT NULL
) STRICT;
CREATE INDEX evidence_by_mugraph ON evidence (mugraph, plan, verdict, method, program_sha256);
CREATE INDEX evidence_by_plan ON evidence (plan, verdict, method, program_sha256);

CREATE TABLE session (
  id INTEGER PRIMARY KEY,
  workload INTEGER NOT NULL REFERENCES workload,
  environment INTEGER NOT NULL REFERENCES environment,
  options TEXT NOT NULL,
  seed INTEGER NOT NULL,
  stop_reason TEXT NOT NULL,
  counters TEXT NOT NULL,
  reference_us REAL,
  started TEXT NOT NULL,
  ended TEXT NOT NULL
) STRICT;
CREATE INDEX session_by_workload ON session (workload, started);
CREATE INDEX session_by_environment ON session (environment);

CREATE TABLE measurement (
  id INTEGER PRIMARY KEY,
  plan INTEGER NOT NULL REFERENCES plan,
  environment INTEGER NOT NULL REFERENCES environment,
  session INTEGER REFERENCES session,
  kind TEXT NOT NULL CHECK (kind IN ('measured', 'estimated')),
  status TEXT NOT NULL CHECK (status IN ('ok', 'compile_error', 'launch_error', 'wrong_result',
    'timeout', 'crashed', 'unsupported')),
  reason TEXT NOT NULL,
  time_us REAL,
  spread_us REAL,
  samples BLOB NOT NULL,
  protocol TEXT NOT NULL,
  created TEXT NOT NULL
) STRICT;
CREATE INDEX measurement_by_plan ON measurement (plan, kind, created);
CREATE INDEX measurement_by_session ON measurement (session);
CREATE INDEX measurement_by_environment ON measurement (environment);

-- Per plan the newest measurement; what was measured counts before what was estimated. ('measured'
-- sorts after 'estimated': the order is that of the index, read backwards.)
CREATE VIEW newest AS
  SELECT m.* FROM plan p JOIN measurement m ON m.id = (
    SELECT x.id FROM measurement x WHERE x.plan = p.id
    ORDER BY x.kind DESC, x.created DESC, x.id DESC LIMIT 1);

-- Plans whose evidence allows them to be used: the uGraph passed the random test against this
-- very program, the plan passed the numeric test, and nothing refuted either. (Evidence of the
-- uGraph and of the plan are asked for apart: many plans share a uGraph.)
CREATE VIEW usable AS
  SELECT p.id AS plan FROM plan p JOIN workload w ON w.id = p.workload
  WHERE p.text <> ''
    AND (EXISTS (SELECT 1 FROM evidence e WHERE e.mugraph = p.mugraph AND e.plan IS NULL
          AND e.verdict = 'pass' AND e.method = 'random'
          AND e.program_sha256 IN ('', w.program_sha256))
      OR EXISTS (SELECT 1 FROM evidence e WHERE e.plan = p.id
          AND e.verdict = 'pass' AND e.method = 'random'
          AND e.program_sha256 IN ('', w.program_sha256)))
    AND EXISTS (SELECT 1 FROM evidence e WHERE e.plan = p.id
      AND e.verdict = 'pass' AND e.method = 'numeric'
      AND e.program_sha256 IN ('', w.program_sha256))
    AND NOT EXISTS (SELECT 1 FROM evidence e WHERE e.mugraph = p.mugraph AND e.plan IS NULL
      AND e.verdict = 'refuted' AND e.program_sha256 IN ('', w.program_sha256))
    AND NOT EXISTS (SELECT 1 FROM evidence e WHERE e.plan = p.id
      AND e.verdict = 'refuted' AND e.program_sha256 IN ('', w.program_sha256));

-- The fastest usable plan per workload, device class and launch mode.
CREATE VIEW best AS
  SELECT workload, key, program, m, dims, dtype, device_class, dependent_launch, plan, mugraph,
    schedule, uses_library, m_min, m_max, measurement, environment, time_us, spread_us, created
  FROM (
    SELECT w.id AS workload, w.key, w.program, w.m, w.dims, w.dtype, p.device_class,
      p.dependent_launch, p.id AS plan, p.mugraph, p.schedule, p.uses_library, p.m_min, p.m_max,
      n.id AS measurement, n.environment, n.time_us, n.spread_us, n.created,
      ROW_NUMBER() OVER (PARTITION BY w.id, p.device_class, p.dependent_launch
        ORDER BY n.time_us, n.id) AS place
    FROM newest n JOIN plan p ON p.id = n.plan JOIN workload w ON w.id = p.workload
    WHERE n.kind = 'measured' AND n.status = 'ok' AND n.time_us > 0 AND n.time_us < 1e300
      AND p.id IN (SELECT plan FROM usable))
  WHERE place = 1;
)sql";

// Version 2:
// - `checked` leads a lookup straight to the few plans that passed the numeric test, among the
//   thousand that were only screened; it is a filter, the evidence itself is still read;
// - a measurement that was disturbed says by what, and whether it may decide;
// - `settings` and `owner` let an interrupted session be gone on with;
// - `info` marks a packed database.
constexpr const char* kVersion2 = R"sql(
DROP VIEW best;
DROP VIEW usable;
DROP VIEW newest;
ALTER TABLE plan ADD COLUMN checked INTEGER NOT NULL DEFAULT 0 CHECK (checked IN (0, 1));
UPDATE plan SET checked = 1 WHERE id IN (
  SELECT plan FROM evidence WHERE plan IS NOT NULL AND method = 'numeric' AND verdict = 'pass');
CREATE INDEX plan_checked ON plan (workload, device_class, dependent_launch) WHERE checked = 1;
ALTER TABLE measurement ADD COLUMN disturbance TEXT NOT NULL DEFAULT '';
ALTER TABLE measurement ADD COLUMN decides INTEGER NOT NULL DEFAULT 1 CHECK (decides IN (0, 1));
ALTER TABLE measurement ADD COLUMN settings TEXT NOT NULL DEFAULT '';
DROP INDEX measurement_by_plan;
CREATE INDEX measurement_by_plan ON measurement (plan, kind, decides, created);
ALTER TABLE session ADD COLUMN owner TEXT NOT NULL DEFAULT '';
CREATE TABLE info (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Per plan the newest measurement; what was measured counts before what was estimated, what was
-- not disturbed before what was. ('measured' sorts after 'estimated': the order is that of the
-- index, read backwards.)
CREATE VIEW newest AS
  SELECT m.* FROM plan p JOIN measurement m ON m.id = (
    SELECT x.id FROM measurement x WHERE x.plan = p.id
    ORDER BY x.kind DESC, x.decides DESC, x.created DESC, x.id DESC LIMIT 1);

-- Plans whose evidence allows them to be used: the uGraph passed the random test against this
-- very program, the plan passed the numeric test, and nothing refuted either. (Evidence of the
-- uGraph and of the plan are asked for apart: many plans share a uGraph.)
CREATE VIEW usable AS
  SELECT p.id AS plan FROM plan p JOIN workload w ON w.id = p.workload
  WHERE p.text <> '' AND p.checked = 1
    AND (EXISTS (SELECT 1 FROM evidence e WHERE e.mugraph = p.mugraph AND e.plan IS NULL
          AND e.verdict = 'pass' AND e.method = 'random'
          AND e.program_sha256 IN ('', w.program_sha256))
      OR EXISTS (SELECT 1 FROM evidence e WHERE e.plan = p.id
          AND e.verdict = 'pass' AND e.method = 'random'
          AND e.program_sha256 IN ('', w.program_sha256)))
    AND EXISTS (SELECT 1 FROM evidence e WHERE e.plan = p.id
      AND e.verdict = 'pass' AND e.method = 'numeric'
      AND e.program_sha256 IN ('', w.program_sha256))
    AND NOT EXISTS (SELECT 1 FROM evidence e WHERE e.mugraph = p.mugraph AND e.plan IS NULL
      AND e.verdict = 'refuted' AND e.program_sha256 IN ('', w.program_sha256))
    AND NOT EXISTS (SELECT 1 FROM evidence e WHERE e.plan = p.id
      AND e.verdict = 'refuted' AND e.program_sha256 IN ('', w.program_sha256));

-- The fastest usable plan per workload, device class and launch mode.
CREATE VIEW best AS
  SELECT workload, key, program, m, dims, dtype, device_class, dependent_launch, plan, mugraph,
    schedule, uses_library, m_min, m_max, measurement, environment, time_us, spread_us, created
  FROM (
    SELECT w.id AS workload, w.key, w.program, w.m, w.dims, w.dtype, p.device_class,
      p.dependent_launch, p.id AS plan, p.mugraph, p.schedule, p.uses_library, p.m_min, p.m_max,
      n.id AS measurement, n.environment, n.time_us, n.spread_us, n.created,
      ROW_NUMBER() OVER (PARTITION BY w.id, p.device_class, p.dependent_launch
        ORDER BY n.time_us, n.id) AS place
    FROM plan p JOIN newest n ON n.plan = p.id JOIN workload w ON w.id = p.workload
    WHERE p.checked = 1 AND n.kind = 'measured' AND n.decides = 1 AND n.status = 'ok'
      AND n.time_us > 0 AND n.time_us < 1e300 AND p.id IN (SELECT plan FROM usable))
  WHERE place = 1;
)sql";

}  // namespace

const std::vector<std::string>& migrations() {
  static const std::vector<std::string> list{kVersion1, kVersion2};
  return list;
}

const std::vector<std::string>& table_names() {
  static const std::vector<std::string> names{"workload", "environment", "mugraph",     "schedule",
                                              "kernel",   "plan",        "plan_kernel", "evidence",
                                              "session",  "measurement", "info"};
  return names;
}

}  // namespace tenon::cache
