-- A database of version 2 with one candidate, as sqlite3's .dump writes it.
BEGIN TRANSACTION;
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
INSERT INTO "environment" VALUES(1,'NVIDIA H200','sm_90a',132,'580.65.06','13.0','0.1.0');
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
INSERT INTO "evidence" VALUES(1,1,NULL,'df86636aa1ec256e3d973567f50e27c42322ee9ba5d524362ce40adccf9d0a85','random','pass','random says pass','{}','',0.0,'2026-11-30T19:32:51.174Z');
INSERT INTO "evidence" VALUES(2,1,NULL,'df86636aa1ec256e3d973567f50e27c42322ee9ba5d524362ce40adccf9d0a85','z3','proved','z3 says proved','{}','',0.0,'2026-11-30T19:32:51.174Z');
INSERT INTO "evidence" VALUES(3,1,1,'df86636aa1ec256e3d973567f50e27c42322ee9ba5d524362ce40adccf9d0a85','numeric','pass','numeric says pass','{}','',0.0,'2026-11-30T19:32:51.174Z');
CREATE TABLE info (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
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
INSERT INTO "kernel" VALUES(1,'204232d79986a8090d74a711943552e62d039bd7bcd1497eed348132b4989abe','// source of mugraph one
host()','-arch=sm_90a','sm_90a','13.0',X'7F454C46206F6E65','1ab54e74eb57f190ffbb847ac39ad1b20f45065bfe78ec25e1646599c14ccc2a','[]',128,0,0,0.0,'ok','');
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
, disturbance TEXT NOT NULL DEFAULT '', decides INTEGER NOT NULL DEFAULT 1 CHECK (decides IN (0, 1)), settings TEXT NOT NULL DEFAULT '') STRICT;
INSERT INTO "measurement" VALUES(1,1,1,1,'measured','ok','',10.0,0.5,X'00000000000024400000000000002540','two samples','2026-11-30T12:00:00.000Z','',1,'');
CREATE TABLE mugraph (
  id INTEGER PRIMARY KEY,
  sha256 TEXT NOT NULL UNIQUE,
  text TEXT NOT NULL,
  label TEXT NOT NULL,
  program TEXT NOT NULL
) STRICT;
INSERT INTO "mugraph" VALUES(1,'b380c876522528d67dd3450104c0b8c481c1163c009c8dcea702bc85d589c286','mugraph one
','label of mugraph one','rmsnorm_linear');
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
  sha256 TEXT NOT NULL, checked INTEGER NOT NULL DEFAULT 0 CHECK (checked IN (0, 1)),
  UNIQUE (workload, device_class, dependent_launch, m_min, m_max, mugraph, schedule, sha256)
) STRICT;
INSERT INTO "plan" VALUES(1,1,1,1,'sm_90a',0,16,16,0,'{"schedule":"host()","mugraph":"mugraph one
","dependent":false}1ab54e74eb57f190ffbb847ac39ad1b20f45065bfe78ec25e1646599c14ccc2a','49f95741bb0b7b6b38519efb87cf0ab8427a4c1fa9714feb23f823748333ff10',1);
CREATE TABLE plan_kernel (
  plan INTEGER NOT NULL REFERENCES plan,
  position INTEGER NOT NULL,
  kernel INTEGER NOT NULL REFERENCES kernel,
  PRIMARY KEY (plan, position)
) STRICT, WITHOUT ROWID;
INSERT INTO "plan_kernel" VALUES(1,0,1);
CREATE TABLE schedule (
  id INTEGER PRIMARY KEY,
  sha256 TEXT NOT NULL UNIQUE,
  text TEXT NOT NULL
) STRICT;
INSERT INTO "schedule" VALUES(1,'07ea36e111fc6e3a5fa3f767edc66bf85dd886ceda4b6459759b695680f605c6','host()');
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
, owner TEXT NOT NULL DEFAULT '') STRICT;
INSERT INTO "session" VALUES(1,1,1,'',1,'','',NULL,'2026-11-30T19:32:51.174Z','','');
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
INSERT INTO "workload" VALUES(1,'{"attributes":{"eps":1e-06},"dims":{"k":576,"n":960},"dtype":"bf16","program":"rmsnorm_linear","program_id":"df86636aa1ec256e3d973567f50e27c42322ee9ba5d524362ce40adccf9d0a85"}','rmsnorm_linear','program rmsnorm_linear
','df86636aa1ec256e3d973567f50e27c42322ee9ba5d524362ce40adccf9d0a85',16,'{"m":16,"k":576,"n":960}','bf16','{"eps":1e-06}');
CREATE INDEX workload_by_program ON workload (program);
CREATE INDEX plan_by_mugraph ON plan (mugraph);
CREATE INDEX plan_by_schedule ON plan (schedule);
CREATE INDEX plan_kernel_by_kernel ON plan_kernel (kernel);
CREATE INDEX evidence_by_mugraph ON evidence (mugraph, plan, verdict, method, program_sha256);
CREATE INDEX evidence_by_plan ON evidence (plan, verdict, method, program_sha256);
CREATE INDEX session_by_workload ON session (workload, started);
CREATE INDEX session_by_environment ON session (environment);
CREATE INDEX measurement_by_session ON measurement (session);
CREATE INDEX measurement_by_environment ON measurement (environment);
CREATE INDEX plan_checked ON plan (workload, device_class, dependent_launch) WHERE checked = 1;
CREATE INDEX measurement_by_plan ON measurement (plan, kind, decides, created);
CREATE VIEW newest AS
  SELECT m.* FROM plan p JOIN measurement m ON m.id = (
    SELECT x.id FROM measurement x WHERE x.plan = p.id
    ORDER BY x.kind DESC, x.decides DESC, x.created DESC, x.id DESC LIMIT 1);
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
COMMIT;
