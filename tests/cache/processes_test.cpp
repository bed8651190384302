// Several processes on one file, and processes that are killed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "tests/cache/sample.h"

namespace tenon::cache {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t count(Database& database, const std::string& table) {
  for (const auto& [name, rows] : database.table_counts()) {
    if (name == table) return rows;
  }
  return -1;
}

template <class Body>
pid_t start(const Body& body) {
  pid_t child = fork();
  if (child == 0) {
    int code = 99;
    try {
      code = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    _exit(code);
  }
  return child;
}

int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

Sample numbered(int writer, int number) {
  Sample sample;
  sample.schedule = "schedule " + std::to_string(writer) + "." + std::to_string(number);
  sample.time_us = 1000 - number;
  return sample;
}

TEST(Processes, ManyOpenANewDatabaseAtOnce) {
  TemporaryFolder folder;
  const std::string path = folder.file("new/a.db");
  std::vector<pid_t> children;
  for (int writer = 0; writer < 8; ++writer) {
    children.push_back(start([&, writer] {
      add(*Database::open(path), numbered(writer, 0));
      return 0;
    }));
  }
  for (pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  auto database = Database::open(path);
  EXPECT_EQ(count(*database, "plan"), 8);
  EXPECT_EQ(count(*database, "workload"), 1);
  EXPECT_TRUE(database->check().empty());
}

TEST(Processes, WritersAndReadersTogether) {
  TemporaryFolder folder;
  const std::string path = folder.file("a.db");
  add(*Database::open(path), numbered(0, 0));
  constexpr int kWriters = 4, kReaders = 4, kEach = 60;
  std::vector<pid_t> writers, readers;
  for (int writer = 1; writer <= kWriters; ++writer) {
    writers.push_back(start([&, writer] {
      auto database = Database::open(path);
      for (int i = 0; i < kEach; ++i) add(*database, numbered(writer, i));
      return 0;
    }));
  }
  for (int reader = 0; reader < kReaders; ++reader) {
    readers.push_back(start([&, reader] {
      auto database = Database::open(path, reader % 2 == 0);
      double last = 1e9;
      for (int i = 0; i < 200; ++i) {
        auto stored = database->best(query_for({}));
        // There always is a winner, it only gets faster, and it is whole.
        if (!stored || stored->measurement.time_us > last || stored->kernels.size() != 1) return 1;
        last = stored->measurement.time_us;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      return 0;
    }));
  }
  for (pid_t child : writers) EXPECT_EQ(wait_for(child), 0);
  for (pid_t child : readers) EXPECT_EQ(wait_for(child), 0);
  auto database = Database::open(path);
  EXPECT_EQ(count(*database, "plan"), 1 + kWriters * kEach);
  EXPECT_EQ(count(*database, "measurement"), 1 + kWriters * kEach);
  EXPECT_EQ(count(*database, "mugraph"), 1);
  EXPECT_EQ(count(*database, "kernel"), 1 + kWriters * kEach);
  EXPECT_TRUE(database->check().empty());
}

TEST(Processes, ThreadsShareOneConnection) {
  TemporaryFolder folder;
  auto database = Database::open(folder.file("a.db"));
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 4; ++writer) {
    threads.emplace_back([&, writer] {
      for (int i = 0; i < 25; ++i) {
        add(*database, numbered(writer, i));
        database->best(query_for({}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count(*database, "measurement"), 100);
}

TEST(Processes, AKillLosesNothingCommitted) {
  TemporaryFolder folder;
  const std::string path = folder.file("a.db");
  Database::open(path);
  std::mt19937_64 random(4);
  int generation = 0;
  std::int64_t promised = 0;
  for (; generation < 12; ++generation) {
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    pid_t child = start([&] {
      auto database = Database::open(path);
      for (int i = 0;; ++i) {
        // Two candidates in one transaction: both or none.
        database->transaction([&] {
          add(*database, numbered(100 + generation, 2 * i));
          add(*database, numbered(100 + generation, 2 * i + 1));
        });
        char done = 1;
        if (write(pipe_ends[1], &done, 1) != 1) return 1;
      }
    });
    close(pipe_ends[1]);
    // Let it get going, then kill it at some moment of its loop.
    char done = 0;
    ASSERT_EQ(read(pipe_ends[0], &done, 1), 1);
    promised += 2;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60000));
    kill(child, SIGKILL);
    EXPECT_EQ(wait_for(child), 100 + SIGKILL);
    while (read(pipe_ends[0], &done, 1) == 1) promised += 2;
    close(pipe_ends[0]);

    auto database = Database::open(path);
    std::int64_t stored = count(*database, "measurement");
    // The last one may have been committed just before it could be reported.
    EXPECT_GE(stored, promised);
    EXPECT_LE(stored, promised + 2);
    EXPECT_EQ(stored % 2, 0);
    EXPECT_TRUE(database->check().empty());
    promised = stored;
  }
}

}  // namespace
}  // namespace tenon::cache
