#include "agent/image/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>

namespace ghostfleet::image {
namespace {

constexpr std::string_view kPrefix = "sha256:";

// Fetched once: looking the algorithm up costs more than hashing a small blob.
const EVP_MD* sha256_method() {
  static EVP_MD* const method = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return method;
}

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

}  // namespace

Status check_digest(std::string_view text) {
  if (text.starts_with("sha512:"))
    return Status(Code::kUnimplemented, fmt::format("digest \"{}\": sha256 is expected", text.substr(0, 160)));
  const bool good = text.starts_with(kPrefix) && text.size() == kPrefix.size() + 64 &&
                    std::all_of(text.begin() + kPrefix.size(), text.end(), is_hex);
  if (good) return Status();
  return invalid_argument(
      fmt::format("digest \"{}\": sha256: and 64 hexadecimal digits are expected", text.substr(0, 160)));
}

std::string_view hex_of(std::string_view digest) { return digest.substr(kPrefix.size()); }

struct Sha256::Impl {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  Impl() { EVP_DigestInit_ex2(context, sha256_method(), nullptr); }
  ~Impl() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::string_view bytes) { EVP_DigestUpdate(impl_->context, bytes.data(), bytes.size()); }

std::string Sha256::finish() {
  unsigned char raw[32];
  EVP_DigestFinal_ex(impl_->context, raw, nullptr);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out(kPrefix);
  for (const unsigned char byte : raw) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

std::string digest_of(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

Status compare_digests(std::string_view what, std::string_view wanted, std::string_view got) {
  if (wanted == got) return Status();
  return Status(Code::kDataLoss, fmt::format("{}: the digest is {}, expected was {}", what, got, wanted));
}

}  // namespace ghostfleet::image
