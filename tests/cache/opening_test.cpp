// Paths, permissions and full disks: one sentence that names the path, nothing lost.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>

#include "ir/error.h"
#include "tests/cache/sample.h"

namespace tenon::cache {
namespace {

namespace fs = std::filesystem;

// Runs `body` in a process of its own, without root's powers where `as_user`. Its exit code is the
// number of failed expectations (or 99 for an exception).
int in_child(bool as_user, const std::function<void()>& body) {
  pid_t child = fork();
  if (child == 0) {
    if (as_user && geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(98);
    try {
      body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(99);
    }
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

// The UserError's text; it must name the path and be one sentence.
std::string refusal(const std::string& path, bool read_only = false) {
  try {
    Database::open(path, read_only);
  } catch (const UserError& error) {
    std::string text = error.what();
    EXPECT_NE(text.find(path), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    return text;
  }
  ADD_FAILURE() << path << " was opened";
  return "";
}

TEST(Opening, MakesFoldersAndFile) {
  TemporaryFolder folder;
  const std::string path = folder.file("deep/er/my tuning?#%41.db");
  std::int64_t plan = add(*Database::open(path), {});
  EXPECT_EQ(Database::open(path, true)->best(query_for({}))->plan.id, plan);
  // Nothing else stays behind.
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder.path() / "deep/er")) {
    EXPECT_EQ(entry.path().string(), path);
    ++files;
  }
  EXPECT_EQ(files, 1);
}

TEST(Opening, ReadOnlyMakesNothing) {
  TemporaryFolder folder;
  EXPECT_NE(refusal(folder.file("none/a.db"), true).find("does not exist"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Opening, PathsThatCannotBe) {
  TemporaryFolder folder;
  refusal(folder.path().string());
  std::ofstream(folder.file("file")) << "text";
  refusal(folder.file("file/a.db"));
  refusal("/proc/tenon/a.db");
  refusal("/dev/null");
  EXPECT_THROW(Database::open(""), UserError);
}

TEST(Opening, WritingThroughAReadOnlyDatabaseIsRefused) {
  TemporaryFolder folder;
  add(*Database::open(folder.file("a.db")), {});
  auto database = Database::open(folder.file("a.db"), true);
  EXPECT_THROW(add(*database, {}), UserError);
  EXPECT_TRUE(database->best(query_for({})));
}

TEST(Opening, WithoutPermission) {
  TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms::all);
  const std::string path = folder.file("a.db");
  add(*Database::open(path), {});
  fs::permissions(path, fs::perms::none);
  EXPECT_EQ(in_child(true,
                     [&] {
                       refusal(path);
                       refusal(path, true);
                     }),
            0);
  fs::permissions(path, fs::perms(0444));
  EXPECT_EQ(in_child(true,
                     [&] {
                       EXPECT_NE(refusal(path).find("ermission"), std::string::npos);
                       EXPECT_TRUE(Database::open(path, true)->best(query_for({})));
                     }),
            0);
}

TEST(Opening, AFolderWithoutWritePermissionServes) {
  TemporaryFolder folder;
  const std::string path = folder.file("a.db");
  add(*Database::open(path), {});
  fs::permissions(path, fs::perms(0444));
  fs::permissions(folder.path(), fs::perms(0555));
  EXPECT_EQ(in_child(true,
                     [&] {
                       refusal(path);
                       refusal(folder.file("new.db"));
                       auto database = Database::open(path, true);
                       auto stored = database->best(query_for({}));
                       EXPECT_TRUE(stored);
                       EXPECT_TRUE(database->check().empty());
                     }),
            0);
  int files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder.path())) ++files;
  EXPECT_EQ(files, 1);
  fs::permissions(folder.path(), fs::perms(0755));
}

TEST(Opening, AReadOnlyFolderWithAnUnfinishedLogStillAnswers) {
  TemporaryFolder folder;
  const std::string path = folder.file("a.db");
  // A process that is killed leaves its log behind; what it committed is in there alone.
  EXPECT_EQ(in_child(false,
                     [&] {
                       auto database = Database::open(path);
                       add(*database, {});
                       _exit(0);
                     }),
            0);
  ASSERT_GT(fs::file_size(path + "-wal"), 0u);
  for (const char* suffix : {"", "-wal", "-shm"}) fs::permissions(path + suffix, fs::perms(0444));
  fs::permissions(folder.path(), fs::perms(0555));
  EXPECT_EQ(in_child(true, [&] { EXPECT_TRUE(Database::open(path, true)->best(query_for({}))); }),
            0);
  fs::permissions(folder.path(), fs::perms(0755));
}

// Adds candidates until a write fails; returns how many were committed.
int fill_up(Database& database, std::string* message) {
  for (int i = 0; i < 10000; ++i) {
    Sample sample;
    sample.schedule = "schedule " + std::to_string(i);
    sample.cubin = sample.schedule + std::string(20000, 'x');
    try {
      add(database, sample);
    } catch (const UserError& error) {
      *message = error.what();
      return i;
    }
  }
  return -1;
}

TEST(FullDisk, OneSentenceAndNothingLost) {
  TemporaryFolder folder;
  int code = in_child(false, [&] {
    // A small file system of this process alone.
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tenon", folder.path().c_str(), "tmpfs", 0, "size=2m") != 0) {
      _exit(77);
    }
    const std::string path = folder.file("a.db");
    auto database = Database::open(path);
    std::string message;
    int committed = fill_up(*database, &message);
    EXPECT_GT(committed, 5);
    EXPECT_NE(message.find("the disk is full"), std::string::npos) << message;
    EXPECT_NE(message.find(path), std::string::npos) << message;
    EXPECT_EQ(database->list(false).size(), static_cast<std::size_t>(committed));
    EXPECT_TRUE(database->check().empty());
    // Reading goes on, and so does another process.
    EXPECT_TRUE(database->best(query_for({})));
    database.reset();
    EXPECT_EQ(Database::open(path, true)->list(false).size(), static_cast<std::size_t>(committed));
    // A disk that is full from the start.
    refusal(folder.file("b.db"));
    EXPECT_FALSE(fs::exists(folder.file("b.db")));
  });
  if (code == 77) GTEST_SKIP() << "mounting a file system takes root";
  EXPECT_EQ(code, 0);
}

TEST(FullDisk, AFileSizeLimitIsOneSentenceToo) {
  TemporaryFolder folder;
  const std::string path = folder.file("a.db");
  EXPECT_EQ(in_child(false,
                     [&] {
                       signal(SIGXFSZ, SIG_IGN);
                       rlimit limit{1 << 20, 1 << 20};
                       EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
                       auto database = Database::open(path);
                       std::string message;
                       int committed = fill_up(*database, &message);
                       EXPECT_GT(committed, 5);
                       EXPECT_NE(message.find(path), std::string::npos) << message;
                       EXPECT_EQ(database->list(false).size(), static_cast<std::size_t>(committed));
                     }),
            0);
  EXPECT_TRUE(Database::open(path)->check().empty());
}

TEST(DefaultPath, FollowsTheVariablesInTheirOrder) {
  EXPECT_EQ(in_child(false,
                     [] {
                       setenv("TENON_DB", "/a/b.db", 1);
                       setenv("XDG_DATA_HOME", "/data", 1);
                       setenv("HOME", "/home/u", 1);
                       EXPECT_EQ(default_path(), "/a/b.db");
                       setenv("TENON_DB", "", 1);
                       EXPECT_EQ(default_path(), "/data/tenon/tuning.db");
                       unsetenv("XDG_DATA_HOME");
                       EXPECT_EQ(default_path(), "/home/u/.local/share/tenon/tuning.db");
                       unsetenv("HOME");
                       EXPECT_THROW(default_path(), UserError);
                     }),
            0);
}

}  // namespace
}  // namespace tenon::cache
