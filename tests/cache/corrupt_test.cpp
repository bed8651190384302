// Damaged files: an error that names the path, or a miss; never a crash, and the file is left as
// it was.
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "ir/error.h"
#include "tests/cache/sample.h"

namespace tenon::cache {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// The bytes of a database with a few candidates.
std::string sound_file() {
  TemporaryFolder folder;
  {
    auto database = Database::open(folder.file("a.db"));
    for (int i = 0; i < 8; ++i) {
      Sample sample;
      sample.schedule = "s" + std::to_string(i);
      sample.cubin = std::string(3000, static_cast<char>('a' + i));
      sample.time_us = 10 + i;
      add(*database, sample);
    }
  }
  return read_file(folder.file("a.db"));
}

// Opens and uses the file in every way; only UserError may come out, and it must name the path.
// Returns true when everything went as with a sound file.
bool use(const std::string& path, bool read_only) {
  try {
    auto database = Database::open(path, read_only);
    std::string why;
    auto stored = database->best(query_for({}), &why);
    EXPECT_TRUE(stored || !why.empty());
    bool sound = stored && stored->schedule.text == "s0" && database->check().empty();
    database->list(false);
    database->table_counts();
    for (std::int64_t plan = 1; plan < 10; ++plan) database->by_plan(plan);
    return sound;
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    return false;
  }
}

TEST(Corrupt, Junk) {
  TemporaryFolder folder;
  std::mt19937_64 random(1);
  for (std::size_t size : {1u, 15u, 16u, 99u, 100u, 4096u, 100000u}) {
    std::string bytes(size, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    for (bool sqlite_magic : {false, true}) {
      if (sqlite_magic)
        bytes.replace(0, std::min<std::size_t>(16, size),
                      std::string("SQLite format 3\0", std::min<std::size_t>(16, size)));
      const std::string path = folder.file("junk.db");
      write_file(path, bytes);
      for (bool read_only : {false, true})
        EXPECT_THROW(Database::open(path, read_only), UserError) << size;
      EXPECT_EQ(read_file(path), bytes);
    }
  }
}

TEST(Corrupt, TruncatedAnywhere) {
  TemporaryFolder folder;
  const std::string sound = sound_file();
  const std::string path = folder.file("a.db");
  write_file(path, sound);
  ASSERT_TRUE(use(path, true));
  for (std::size_t kept = 0; kept < sound.size(); kept += 1500) {
    const std::string bytes = sound.substr(0, kept);
    write_file(path, bytes);
    EXPECT_FALSE(use(path, true)) << kept;
    if (kept == 0) continue;  // an empty file becomes a database when opened for writing
    EXPECT_THROW(Database::open(path), UserError) << kept;
    EXPECT_EQ(read_file(path), bytes) << kept;
  }
}

TEST(Corrupt, FlippedBytes) {
  TemporaryFolder folder;
  const std::string sound = sound_file();
  const std::string path = folder.file("a.db");
  std::mt19937_64 random(2);
  int noticed = 0;
  constexpr int kTrials = 300;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::string bytes = sound;
    for (int flips = 1 + static_cast<int>(random() % 4); flips > 0; --flips) {
      bytes[random() % bytes.size()] ^= static_cast<char>(1u << random() % 8);
    }
    write_file(path, bytes);
    if (!use(path, true)) ++noticed;
    EXPECT_EQ(read_file(path), bytes);
    use(path, false);
  }
  // Free space and labels are not covered by any check, most of the rest is.
  EXPECT_GT(noticed, kTrials / 4);
}

// Every bit of the header, that of the schema's format among them, which SQLite reports in a way of
// its own.
TEST(Corrupt, FlippedBitsOfTheHeader) {
  TemporaryFolder folder;
  const std::string sound = sound_file(), path = folder.file("a.db");
  for (std::size_t bit = 0; bit < 800; ++bit) {
    std::string bytes = sound;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    write_file(path, bytes);
    use(path, true);
    if (bit % 8 == bit / 8 % 8) {  // slower: one bit of each byte
      write_file(path, bytes);
      use(path, false);
    }
    try {
      Database::open_packed(bytes, path);
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    }
  }
}

TEST(Corrupt, OverwrittenPages) {
  TemporaryFolder folder;
  const std::string sound = sound_file();
  const std::string path = folder.file("a.db");
  std::mt19937_64 random(3);
  for (std::size_t page = 0; page * 4096 < sound.size(); ++page) {
    for (bool zeros : {false, true}) {
      std::string bytes = sound;
      for (std::size_t i = page * 4096; i < std::min(bytes.size(), (page + 1) * 4096); ++i) {
        bytes[i] = zeros ? '\0' : static_cast<char>(random());
      }
      write_file(path, bytes);
      use(path, true);
      EXPECT_EQ(read_file(path), bytes);
      use(path, false);
      std::filesystem::remove(path + "-wal");
      std::filesystem::remove(path + "-shm");
    }
  }
}

TEST(Corrupt, AnAnswerIsNeverADamagedCubin) {
  TemporaryFolder folder;
  const std::string sound = sound_file();
  const std::string path = folder.file("a.db");
  // Every byte of the winner's cubin, which is a run of 'a'.
  for (std::size_t at = sound.find(std::string(100, 'a')); at < sound.size() && sound[at] == 'a';
       at += 97) {
    std::string bytes = sound;
    bytes[at] = 'b';
    write_file(path, bytes);
    std::string why;
    auto stored = Database::open(path, true)->best(query_for({}), &why);
    ASSERT_TRUE(stored);
    EXPECT_EQ(stored->schedule.text, "s1");
    EXPECT_NE(why.find("checksum"), std::string::npos) << why;
  }
}

}  // namespace
}  // namespace tenon::cache
