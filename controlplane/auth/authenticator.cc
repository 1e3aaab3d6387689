#include "controlplane/auth/authenticator.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace ghostfleet::controlplane {
namespace {

using kube::http::HeaderList;

constexpr const char* kAuthenticated = "system:authenticated";
constexpr const char* kUnauthenticated = "system:unauthenticated";
constexpr size_t kMaxTokenBytes = 32 * 1024;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool starts_with_scheme(std::string_view header, std::string_view scheme) {
  return header.size() > scheme.size() &&
         std::equal(scheme.begin(), scheme.end(), header.begin(),
                    [](char a, char b) { return lower(a) == lower(b); }) &&
         header[scheme.size()] == ' ';
}

UserInfo with_authenticated(UserInfo user) {
  if (!user.in_group(kAuthenticated)) user.groups.emplace_back(kAuthenticated);
  return user;
}

UserInfo certificate_user(const kube::http::PeerCertificate& peer) {
  UserInfo user;
  user.name = peer.common_name;
  user.uid = peer.uid;
  user.groups = peer.organizations;
  return with_authenticated(std::move(user));
}

bool object_uid_is(const ObjectRef& object, const std::string& uid) {
  if (object == nullptr) return false;
  // The uid is a UUID: its quoted form in the bytes can only be one of this object's references or its own; the latter
  // is read properly.
  Result<kube::Json> json = kube::parse_json(object->json);
  return json.ok() && kube::get_string(*json, "metadata.uid") == uid;
}

// The number of headers with one prefix is small: they are looked at one by one.
std::vector<std::string> header_values(const HeaderList& headers, std::string_view name) {
  std::vector<std::string> values;
  for (const auto& [key, value] : headers) {
    if (key == name) values.push_back(value);
  }
  return values;
}

constexpr std::string_view kExtraPrefix = "impersonate-extra-";

struct Wanted {
  std::string user, uid;
  bool has_user = false;
  std::vector<std::string> groups;
  std::vector<std::pair<std::string, std::vector<std::string>>> extra;
  bool empty() const { return !has_user && uid.empty() && groups.empty() && extra.empty(); }
};

Wanted read_wanted(const HeaderList& headers) {
  Wanted w;
  if (const std::string* user = headers.find("impersonate-user"); user != nullptr) w.user = *user;
  w.has_user = !w.user.empty();
  w.uid = std::string(headers.get("impersonate-uid"));
  w.groups = header_values(headers, "impersonate-group");
  for (const auto& [key, value] : headers) {
    if (key.size() <= kExtraPrefix.size() || key.compare(0, kExtraPrefix.size(), kExtraPrefix) != 0) continue;
    const std::string name = kube::http::percent_decode(key.substr(kExtraPrefix.size()), false);
    auto it = std::find_if(w.extra.begin(), w.extra.end(), [&](const auto& e) { return e.first == name; });
    if (it == w.extra.end()) it = w.extra.insert(w.extra.end(), {name, {}});
    it->second.push_back(value);
  }
  return w;
}

// "system:serviceaccount:NS:NAME"
bool split_service_account(std::string_view user, std::string* ns, std::string* name) {
  constexpr std::string_view kPrefix = "system:serviceaccount:";
  if (user.substr(0, kPrefix.size()) != kPrefix) return false;
  user.remove_prefix(kPrefix.size());
  const size_t colon = user.find(':');
  if (colon == std::string_view::npos || user.find(':', colon + 1) != std::string_view::npos) return false;
  *ns = std::string(user.substr(0, colon));
  *name = std::string(user.substr(colon + 1));
  return !ns->empty() && !name->empty();
}

std::vector<Attributes> impersonation_checks(const UserInfo& requester, const Wanted& wanted) {
  std::vector<Attributes> checks;
  const auto ask = [&](std::string group, std::string resource, std::string ns, std::string name,
                       std::string subresource = "") {
    Attributes a;
    a.user = &requester;
    a.verb = "impersonate";
    a.group = std::move(group);
    a.version = "v1";
    a.resource = std::move(resource);
    a.subresource = std::move(subresource);
    a.ns = std::move(ns);
    a.name = std::move(name);
    checks.push_back(std::move(a));
  };
  std::string ns, name;
  if (split_service_account(wanted.user, &ns, &name)) {
    ask("", "serviceaccounts", ns, name);
  } else {
    ask("", "users", "", wanted.user);
  }
  for (const std::string& group : wanted.groups) ask("", "groups", "", group);
  for (const auto& [key, values] : wanted.extra) {
    for (const std::string& value : values) ask("authentication.k8s.io", "userextras", "", value, key);
  }
  if (!wanted.uid.empty()) ask("authentication.k8s.io", "uids", "", wanted.uid);
  return checks;
}

// As Go's %#v prints the user that was asked for.
std::string wanted_text(const Wanted& wanted) {
  std::string out = "&user.DefaultInfo{Name:\"\", UID:";
  kube::append_json_string(wanted.uid, &out);
  out += ", Groups:[]string";
  out += wanted.groups.empty() ? "(nil)" : "{";
  for (size_t i = 0; i < wanted.groups.size(); ++i) {
    if (i > 0) out += ", ";
    kube::append_json_string(wanted.groups[i], &out);
  }
  if (!wanted.groups.empty()) out += "}";
  return out + ", Extra:map[string][]string" + (wanted.extra.empty() ? "(nil)" : "{...}") + "}";
}

UserInfo impersonated_user(Wanted wanted) {
  UserInfo user;
  user.name = std::move(wanted.user);
  user.uid = std::move(wanted.uid);
  user.extra = std::move(wanted.extra);
  user.groups = std::move(wanted.groups);
  std::string ns, name;
  if (user.groups.empty() && split_service_account(user.name, &ns, &name)) {
    user.groups = {"system:serviceaccounts", "system:serviceaccounts:" + ns};
  }
  if (user.name == kAnonymousUser) {
    if (!user.in_group(kUnauthenticated)) user.groups.emplace_back(kUnauthenticated);
    return user;
  }
  return user.in_group(kUnauthenticated) ? user : with_authenticated(std::move(user));
}

}  // namespace

Authenticator::Authenticator(AuthenticatorOptions options, const TokenIssuer* issuer, ClusterObjects objects,
                             const Clock& clock)
    : options_(options), issuer_(issuer), objects_(std::move(objects)), clock_(clock) {}

void Authenticator::add_token(std::string token, UserInfo user) {
  const std::lock_guard<std::mutex> lock(mutex_);
  tokens_.insert_or_assign(std::move(token), std::move(user));
}

kube::ApiResult<UserInfo> Authenticator::authenticate(const kube::http::Request& request) const {
  if (request.peer_certificate != nullptr && !request.peer_certificate->common_name.empty()) {
    return certificate_user(*request.peer_certificate);
  }
  const std::string* header = request.headers.find("authorization");
  if (header != nullptr && starts_with_scheme(*header, "bearer")) {
    const std::string_view token = trimmed(std::string_view(*header).substr(7), " ");
    if (!token.empty()) {
      Result<TokenIdentity> identity = authenticate_token(token, {});
      if (!identity.ok()) return kube::unauthorized();
      return with_authenticated(std::move(identity->user));
    }
  }
  // Basic authentication is not offered: who sends it is told so rather than taken for anonymous.
  if (header != nullptr && starts_with_scheme(*header, "basic")) return kube::unauthorized();
  if (!options_.anonymous) return kube::unauthorized();
  UserInfo user;
  user.name = kAnonymousUser;
  user.groups = {kUnauthenticated};
  return user;
}

Result<TokenIdentity> Authenticator::authenticate_token(std::string_view token,
                                                        const std::vector<std::string>& audiences) const {
  const Status invalid(Code::kUnauthenticated, "invalid bearer token");
  if (token.size() > kMaxTokenBytes) return invalid;
  const std::vector<std::string> own = issuer_ != nullptr ? issuer_->audiences() : std::vector<std::string>();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const auto it = tokens_.find(token); it != tokens_.end()) return TokenIdentity{it->second, own};
  }
  if (issuer_ == nullptr || !issuer_->is_own(token)) return invalid;
  Result<ServiceAccountClaims> claims = issuer_->verify(token, audiences, clock_.wall_now());
  if (!claims.ok()) {
    return Status(Code::kUnauthenticated, "[invalid bearer token, " + claims.error().message() + "]");
  }
  Result<UserInfo> user = service_account_user(*claims);
  if (!user.ok()) return Status(Code::kUnauthenticated, "[invalid bearer token, " + user.error().message() + "]");
  TokenIdentity identity{std::move(*user), {}};
  for (const std::string& a : audiences.empty() ? own : audiences) {
    const auto& held = claims->audiences;
    if (std::find(held.begin(), held.end(), a) != held.end()) identity.audiences.push_back(a);
  }
  return identity;
}

Result<UserInfo> Authenticator::service_account_user(const ServiceAccountClaims& c) const {
  const auto gone = [](std::string why) { return Status(Code::kUnauthenticated, std::move(why)); };
  if (objects_.store != nullptr) {
    if (!object_uid_is(objects_.get("serviceaccounts", c.ns, c.name), c.uid)) {
      return gone("service account " + c.ns + "/" + c.name + " has been deleted");
    }
    if (c.pod.set() && !object_uid_is(objects_.get("pods", c.ns, c.pod.name), c.pod.uid)) {
      return gone("service account token has been invalidated");
    }
    if (c.secret.set() && !object_uid_is(objects_.get("secrets", c.ns, c.secret.name), c.secret.uid)) {
      return gone("service account token has been invalidated");
    }
    const bool node_bound = c.node.set() && !c.pod.set();
    if (node_bound && !object_uid_is(objects_.get("nodes", "", c.node.name), c.node.uid)) {
      return gone("service account token has been invalidated");
    }
  }
  UserInfo user;
  user.name = "system:serviceaccount:" + c.ns + ":" + c.name;
  user.uid = c.uid;
  user.groups = {"system:serviceaccounts", "system:serviceaccounts:" + c.ns};
  if (!c.id.empty()) user.extra.push_back({"authentication.kubernetes.io/credential-id", {"JTI=" + c.id}});
  if (c.node.set()) {
    user.extra.push_back({"authentication.kubernetes.io/node-name", {c.node.name}});
    user.extra.push_back({"authentication.kubernetes.io/node-uid", {c.node.uid}});
  }
  if (c.pod.set()) {
    user.extra.push_back({"authentication.kubernetes.io/pod-name", {c.pod.name}});
    user.extra.push_back({"authentication.kubernetes.io/pod-uid", {c.pod.uid}});
  }
  return user;
}

kube::ApiResult<UserInfo> impersonate(const UserInfo& requester, const HeaderList& headers,
                                      const Authorizer& authorizer) {
  Wanted wanted = read_wanted(headers);
  if (wanted.empty()) return requester;
  if (!wanted.has_user) {
    return kube::bad_request("requested " + wanted_text(wanted) + " without impersonating a user name");
  }
  for (const Attributes& check : impersonation_checks(requester, wanted)) {
    const Decision decision = authorizer.authorize(check);
    if (!decision.allowed()) return forbidden_error(check, decision.reason);
  }
  return impersonated_user(std::move(wanted));
}

}  // namespace ghostfleet::controlplane
