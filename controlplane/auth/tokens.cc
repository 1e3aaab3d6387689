#include "controlplane/auth/tokens.h"

#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <algorithm>
#include <array>

#include "base/digest.h"
#include "controlplane/auth/crypto.h"

namespace ghostfleet::controlplane {
namespace {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

constexpr const char* kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr size_t kEcPart = 32;  // bytes of r and of s in an ES256 signature

Status refused(std::string why) { return Status(Code::kUnauthenticated, std::move(why)); }

std::string bignum_bytes(const BIGNUM* n, size_t size) {
  std::string out(size, '\0');
  if (BN_bn2binpad(n, reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(size)) < 0) return "";
  return out;
}

// JOSE wants r and s side by side where the library writes DER.
std::string der_to_jose(const std::string& der) {
  const auto* p = reinterpret_cast<const unsigned char*>(der.data());
  ECDSA_SIG* signature = d2i_ECDSA_SIG(nullptr, &p, static_cast<long>(der.size()));
  if (signature == nullptr) return "";
  std::string out = bignum_bytes(ECDSA_SIG_get0_r(signature), kEcPart);
  out += bignum_bytes(ECDSA_SIG_get0_s(signature), kEcPart);
  ECDSA_SIG_free(signature);
  return out;
}

std::string jose_to_der(std::string_view jose) {
  if (jose.size() != 2 * kEcPart) return "";
  const auto* bytes = reinterpret_cast<const unsigned char*>(jose.data());
  ECDSA_SIG* signature = ECDSA_SIG_new();
  ECDSA_SIG_set0(signature, BN_bin2bn(bytes, kEcPart, nullptr), BN_bin2bn(bytes + kEcPart, kEcPart, nullptr));
  unsigned char* der = nullptr;
  const int size = i2d_ECDSA_SIG(signature, &der);
  std::string out = size > 0 ? std::string(reinterpret_cast<char*>(der), static_cast<size_t>(size)) : std::string();
  OPENSSL_free(der);
  ECDSA_SIG_free(signature);
  return out;
}

std::string key_number(EVP_PKEY* key, const char* name, size_t pad) {
  BIGNUM* n = nullptr;
  if (EVP_PKEY_get_bn_param(key, name, &n) != 1) return "";
  std::string out = bignum_bytes(n, std::max(pad, static_cast<size_t>(BN_num_bytes(n))));
  BN_free(n);
  return out;
}

Json bound_json(const BoundRef& ref) { return JsonObject{{"name", ref.name}, {"uid", ref.uid}}; }

BoundRef bound_from(const Json& claims, std::string_view key) {
  const Json* ref = kube::find_key(claims, key);
  if (ref == nullptr) return {};
  return {std::string(kube::get_string(*ref, "name")), std::string(kube::get_string(*ref, "uid"))};
}

// Claims that are not of the expected JSON type count as absent.
ServiceAccountClaims claims_from(const Json& payload) {
  ServiceAccountClaims c;
  c.id = std::string(kube::get_string(payload, "jti"));
  c.issued = {kube::get_int(payload, "iat") * 1000000000};
  c.not_before = {kube::get_int(payload, "nbf") * 1000000000};
  c.expires = {kube::get_int(payload, "exp") * 1000000000};
  if (const JsonArray* audiences = kube::get_array(payload, "aud")) {
    for (const Json& a : *audiences) {
      if (a.is_string()) c.audiences.emplace_back(a.get_string());
    }
  } else if (const std::string_view one = kube::get_string(payload, "aud"); !one.empty()) {
    c.audiences.emplace_back(one);
  }
  const Json* private_claims = kube::find_key(payload, "kubernetes.io");
  if (private_claims == nullptr) return c;
  c.ns = std::string(kube::get_string(*private_claims, "namespace"));
  c.name = std::string(kube::get_string(*private_claims, "serviceaccount.name"));
  c.uid = std::string(kube::get_string(*private_claims, "serviceaccount.uid"));
  c.pod = bound_from(*private_claims, "pod");
  c.node = bound_from(*private_claims, "node");
  c.secret = bound_from(*private_claims, "secret");
  return c;
}

std::string quoted_list(const std::vector<std::string>& items) {
  std::string out = "[";
  for (const std::string& item : items) {
    if (out.size() > 1) out += ' ';
    kube::append_json_string(item, &out);
  }
  return out + "]";
}

bool intersects(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](const std::string& x) { return std::find(b.begin(), b.end(), x) != b.end(); });
}

struct SplitToken {
  std::string_view signed_part, header, payload, signature;
};

bool split_token(std::string_view token, SplitToken* out) {
  const size_t first = token.find('.');
  const size_t last = token.rfind('.');
  if (first == std::string_view::npos || first == last || token.find('.', first + 1) != last) return false;
  *out = {token.substr(0, last), token.substr(0, first), token.substr(first + 1, last - first - 1),
          token.substr(last + 1)};
  return true;
}

// A part of a token as JSON; null when it is none. Tokens come from anybody: shallow and small is all they may be.
Json decode_part(std::string_view part) {
  std::string text;
  if (part.size() > 16 * 1024 || !base64url_decode(part, &text)) return nullptr;
  kube::JsonParseOptions options;
  options.max_depth = 16;
  Result<Json> json = kube::parse_json(text, options);
  return json.ok() ? *json : Json();
}

}  // namespace

std::string random_token() { return base64url_encode(crypto::random_bytes(32)); }

std::string random_uuid() {
  std::string bytes = crypto::random_bytes(16);
  bytes[6] = static_cast<char>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<char>((bytes[8] & 0x3f) | 0x80);
  static constexpr const char* kHex = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += kHex[static_cast<unsigned char>(bytes[i]) >> 4];
    out += kHex[static_cast<unsigned char>(bytes[i]) & 15];
  }
  return out;
}

bool base64url_decode(std::string_view text, std::string* bytes) {
  static const std::array<int8_t, 256> kValues = [] {
    std::array<int8_t, 256> values;
    values.fill(-1);
    for (int i = 0; i < 64; ++i) values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<int8_t>(i);
    return values;
  }();
  if (text.size() % 4 == 1) return false;
  bytes->clear();
  uint32_t held = 0;
  int bits = 0;
  for (char c : text) {
    const int8_t value = kValues[static_cast<unsigned char>(c)];
    if (value < 0) return false;
    held = (held << 6) | static_cast<uint32_t>(value);
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      *bytes += static_cast<char>((held >> bits) & 255);
    }
  }
  return true;
}

struct TokenIssuer::Key {
  crypto::KeyPtr key;
  bool ec = true;
  std::string id;

  std::string sign(std::string_view text) const {
    crypto::MdPtr md(EVP_MD_CTX_new());
    size_t size = 0;
    const auto* data = reinterpret_cast<const unsigned char*>(text.data());
    if (EVP_DigestSignInit(md.get(), nullptr, EVP_sha256(), nullptr, key.get()) != 1) return "";
    if (EVP_DigestSign(md.get(), nullptr, &size, data, text.size()) != 1) return "";
    std::string signature(size, '\0');
    if (EVP_DigestSign(md.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, data, text.size()) != 1) {
      return "";
    }
    signature.resize(size);
    return ec ? der_to_jose(signature) : signature;
  }

  bool verify(std::string_view text, std::string_view jose) const {
    const std::string signature = ec ? jose_to_der(jose) : std::string(jose);
    if (signature.empty()) return false;
    crypto::MdPtr md(EVP_MD_CTX_new());
    if (EVP_DigestVerifyInit(md.get(), nullptr, EVP_sha256(), nullptr, key.get()) != 1) return false;
    const int r = EVP_DigestVerify(md.get(), reinterpret_cast<const unsigned char*>(signature.data()), signature.size(),
                                   reinterpret_cast<const unsigned char*>(text.data()), text.size());
    ERR_clear_error();
    return r == 1;
  }
};

TokenIssuer::TokenIssuer() : key_(std::make_unique<Key>()) {}
TokenIssuer::~TokenIssuer() = default;

Result<std::unique_ptr<TokenIssuer>> TokenIssuer::create(std::string_view key_pem, std::string issuer,
                                                         std::vector<std::string> audiences) {
  Result<crypto::KeyPtr> key = crypto::read_private_key(key_pem);
  if (!key.ok()) return key.error().with_context("service account key");
  std::unique_ptr<TokenIssuer> out(new TokenIssuer());
  const int type = EVP_PKEY_get_base_id(key->get());
  if (type != EVP_PKEY_EC && type != EVP_PKEY_RSA) return invalid_argument("service account key: neither EC nor RSA");
  if (type == EVP_PKEY_EC && EVP_PKEY_get_bits(key->get()) != 256) {
    return invalid_argument("service account key: the curve must be P-256");
  }
  out->key_->ec = type == EVP_PKEY_EC;
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key->get(), &der);
  if (size <= 0) return crypto::library_error("public key");
  out->key_->id = base64url_encode(crypto::sha256({reinterpret_cast<char*>(der), static_cast<size_t>(size)}));
  OPENSSL_free(der);
  out->key_->key = std::move(*key);
  out->issuer_ = std::move(issuer);
  out->audiences_ = std::move(audiences);
  return out;
}

Result<std::string> TokenIssuer::issue(const ServiceAccountClaims& c) const {
  const Json header = JsonObject{{"alg", key_->ec ? "ES256" : "RS256"}, {"kid", key_->id}};
  JsonArray audience;
  for (const std::string& a : c.audiences.empty() ? audiences_ : c.audiences) audience.emplace_back(a);
  JsonObject kubernetes{{"namespace", c.ns}};
  if (c.node.set()) kubernetes["node"] = bound_json(c.node);
  if (c.pod.set()) kubernetes["pod"] = bound_json(c.pod);
  if (c.secret.set()) kubernetes["secret"] = bound_json(c.secret);
  kubernetes["serviceaccount"] = JsonObject{{"name", c.name}, {"uid", c.uid}};
  const Json payload = JsonObject{{"aud", std::move(audience)},
                                  {"exp", c.expires.seconds()},
                                  {"iat", c.issued.seconds()},
                                  {"iss", issuer_},
                                  {"jti", c.id.empty() ? random_uuid() : c.id},
                                  {"kubernetes.io", std::move(kubernetes)},
                                  {"nbf", c.not_before.seconds()},
                                  {"sub", "system:serviceaccount:" + c.ns + ":" + c.name}};
  std::string token = base64url_encode(kube::to_json(header)) + "." + base64url_encode(kube::to_json(payload));
  const std::string signature = key_->sign(token);
  if (signature.empty()) return crypto::library_error("signing a token");
  return token + "." + base64url_encode(signature);
}

bool TokenIssuer::is_own(std::string_view token) const {
  SplitToken parts;
  return split_token(token, &parts) && kube::get_string(decode_part(parts.payload), "iss") == issuer_;
}

Result<ServiceAccountClaims> TokenIssuer::verify(std::string_view token, const std::vector<std::string>& audiences,
                                                 WallTime now) const {
  SplitToken parts;
  if (!split_token(token, &parts)) return refused("not a signed token");
  const Json payload = decode_part(parts.payload);
  if (kube::get_string(payload, "iss") != issuer_) return refused("another issuer");
  std::string signature;
  const std::string_view algorithm = kube::get_string(decode_part(parts.header), "alg");
  if (algorithm != (key_->ec ? "ES256" : "RS256") || !base64url_decode(parts.signature, &signature) ||
      !key_->verify(parts.signed_part, signature)) {
    return refused("invalid signature");
  }
  ServiceAccountClaims claims = claims_from(payload);
  if (now >= claims.expires) return refused("service account token has expired");
  if (now < claims.not_before) return refused("service account token is not valid yet");
  if (claims.name.empty() || claims.ns.empty()) return refused("no service account in the token");
  const std::vector<std::string>& wanted = audiences.empty() ? audiences_ : audiences;
  if (!intersects(claims.audiences, wanted)) {
    return refused("token audiences " + quoted_list(claims.audiences) + " is invalid for the target audiences " +
                   quoted_list(wanted));
  }
  return claims;
}

Json TokenIssuer::jwks() const {
  EVP_PKEY* key = key_->key.get();
  JsonObject jwk{{"use", "sig"}, {"kty", key_->ec ? "EC" : "RSA"}, {"kid", key_->id}};
  if (key_->ec) {
    jwk["crv"] = "P-256";
    jwk["alg"] = "ES256";
    jwk["x"] = base64url_encode(key_number(key, OSSL_PKEY_PARAM_EC_PUB_X, kEcPart));
    jwk["y"] = base64url_encode(key_number(key, OSSL_PKEY_PARAM_EC_PUB_Y, kEcPart));
  } else {
    jwk["alg"] = "RS256";
    jwk["n"] = base64url_encode(key_number(key, OSSL_PKEY_PARAM_RSA_N, 1));
    jwk["e"] = base64url_encode(key_number(key, OSSL_PKEY_PARAM_RSA_E, 1));
  }
  return JsonObject{{"keys", JsonArray{std::move(jwk)}}};
}

Json TokenIssuer::openid_configuration() const {
  return JsonObject{{"issuer", issuer_},
                    {"jwks_uri", issuer_ + "/openid/v1/jwks"},
                    {"response_types_supported", JsonArray{"id_token"}},
                    {"subject_types_supported", JsonArray{"public"}},
                    {"id_token_signing_alg_values_supported", JsonArray{key_->ec ? "ES256" : "RS256"}}};
}

}  // namespace ghostfleet::controlplane
