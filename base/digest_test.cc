#include "base/digest.h"

#include <gtest/gtest.h>

namespace ghostfleet {
namespace {

TEST(Digest, KnownAnswers) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(std::string(1000, 'a')), "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3");
}

TEST(Base64, RoundTripsAndRefuses) {
  for (const char* text : {"", "a", "ab", "abc", "abcd"}) {
    std::string back;
    ASSERT_TRUE(base64_decode(base64_encode(text), &back));
    EXPECT_EQ(back, text);
  }
  std::string out;
  for (const char* bad : {"a", "ab=c", "a===", "!!!!"}) EXPECT_FALSE(base64_decode(bad, &out)) << bad;
}

}  // namespace
}  // namespace ghostfleet
