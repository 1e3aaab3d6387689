#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/digest.h"
#include "controlplane/auth/pki.h"
#include "controlplane/auth/tokens.h"

using namespace ghostfleet;
using namespace ghostfleet::controlplane;

// Anything may be shown as a token or sent as a certificate request; nothing made up may pass.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto issuer = std::move(*TokenIssuer::create(generate_key_pem()));
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)issuer->is_own(text);
  if (issuer->verify(text, {}, WallTime{1767607200000000000}).ok()) std::abort();
  (void)parse_certificate_request(text).ok();
  (void)certificate_expiry(text).ok();
  std::string bytes;
  if (base64url_decode(text, &bytes)) (void)base64url_encode(bytes);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  static const auto other = std::move(*TokenIssuer::create(generate_key_pem()));
  ServiceAccountClaims claims;
  claims.ns = "d";
  claims.name = "robot";
  claims.expires = WallTime{1967607200000000000};
  return {*other->issue(claims), "-----BEGIN CERTIFICATE REQUEST-----\nMIIB\n-----END CERTIFICATE REQUEST-----\n",
          "eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2t1YmVybmV0ZXMuZGVmYXVsdC5zdmMifQ."};
}
