// FIPS 180-4's examples and lengths around the padding boundaries (digests from Python's hashlib).
#include "ir/sha256.h"

#include <gtest/gtest.h>

namespace tenon::ir {
namespace {

TEST(Sha256, PublishedExamples) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, LengthsAroundTheBlockAndPadding) {
  auto digest = [](int length) {
    std::string bytes;
    for (int i = 0; i < length; ++i) bytes += static_cast<char>((i * 7 + 1) % 256);
    return sha256_hex(bytes);
  };
  EXPECT_EQ(digest(55), "16fa57a0a3423a715d594516339f36189d6b5f93754a9714fef202616a9fabfe");
  EXPECT_EQ(digest(56), "c37b44e5f1b18554b36966f4f8e08bfbf3164c4b6c10374d12d89850892073c5");
  EXPECT_EQ(digest(63), "bbba992d2c85af960fb2987a1fd05e0aa82a3db3c740dd8982a9e273b75e36a3");
  EXPECT_EQ(digest(64), "66bd4633ed6f71c4ecfa4763bf7ba1c8ec7612de9aa6c0578a7b675207c71e0b");
  EXPECT_EQ(digest(65), "9f7dc47107b750a1f3d35db5d9547f24ef40da5b731b9540d4f43710a154f6c9");
  EXPECT_EQ(digest(119), "a3ed307b730fa77c07531300c6e4a282330011d4d4caf6bb7b63ae05950f4b66");
  EXPECT_EQ(digest(120), "8e3b15d9fea7472655aa069620b7f8c2e55ee1499f763200a7515fe826e99d20");
}

}  // namespace
}  // namespace tenon::ir
