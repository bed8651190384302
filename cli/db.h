// What the subcommands of `tenon db` share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cache/database.h"
#include "cli/cli.h"

namespace tenon::cli {

struct DbArguments {
  std::string database;
  bool json = false, csv = false;

  std::string id;                        // show
  WorkloadOptions workload;              // best
  std::string device, launch = "plain";  // best

  bool all = false;                        // ls, and what it leaves out:
  std::string program, dtype, on, status;  // ls, stats
  std::vector<std::string> ranges;         // ls, stats: NAME=LOW:HIGH
  std::string newer_than, older_than;      // ls, stats, prune: a duration
  std::string sort = "workload";           // ls
  std::string limit;                       // ls

  std::vector<std::string> files;     // import, merge
  std::string file;                   // export, pack, report
  bool stale = false, apply = false;  // prune
  std::string keep;                   // prune
  bool reverify = false;              // check
  std::string seed;                   // check
};

// The file that --db, or what stands in its place, names.
std::string database_path(const DbArguments& a);
// Opens it for reading.
std::unique_ptr<cache::Database> open_database(const DbArguments& a);
// The date that lies `duration` ("30d", "12h" …) before now, as dates are stored.
std::string date_before(const std::string& argument, const std::string& duration);
// A cell of CSV, quoted where it must be (RFC 4180).
std::string csv_cell(const std::string& text);
// A header and a line of CSV for each plan.
void print_csv(const std::vector<cache::Database::Listing>& lines);

// cmd_db_list.cpp
int db_list(const DbArguments& a);
int db_stats(const DbArguments& a);
// cmd_db_show.cpp
int db_show(const DbArguments& a);
int db_best(const DbArguments& a);
// cmd_db_move.cpp
int db_export(const DbArguments& a);
int db_import(const DbArguments& a);
int db_merge(const DbArguments& a);
int db_pack(const DbArguments& a);
// cmd_db_care.cpp
int db_prune(const DbArguments& a);
int db_check(const DbArguments& a);
// cmd_db_report.cpp
int db_report(const DbArguments& a);

}  // namespace tenon::cli
