#include "agent/kubelet_api/gate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "agent/kubelet_api/route.h"
#include "base/digest.h"
#include "base/log.h"
#include "kube/api/json.h"

namespace ghostfleet::kubelet_api {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr size_t kMaxToken = 64 * 1024;
constexpr std::string_view kTokenReviews = "/apis/authentication.k8s.io/v1/tokenreviews";
constexpr std::string_view kAccessReviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

// 16 bytes are enough to tell reviews apart and too many to guess.
std::string digest_of(std::string_view text) {
  const auto digest = sha256(text);
  return {reinterpret_cast<const char*>(digest.data()), 16};
}

std::vector<std::string> strings_of(const JsonArray* list) {
  std::vector<std::string> out;
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    if ((*list)[i].is_string()) out.emplace_back((*list)[i].get_string());
  }
  return out;
}

std::shared_ptr<const User> user_of_certificate(const kube::http::PeerCertificate& certificate) {
  auto user = std::make_shared<User>();
  user->name = certificate.common_name;
  user->uid = certificate.uid;
  user->groups = certificate.organizations;
  user->groups.emplace_back("system:authenticated");
  return user;
}

// Null: the review does not know the token.
std::shared_ptr<const User> user_of_review(const Json& review) {
  if (!kube::get_bool(review, "status.authenticated")) return nullptr;
  auto user = std::make_shared<User>();
  user->name = kube::get_string(review, "status.user.username");
  user->uid = kube::get_string(review, "status.user.uid");
  user->groups = strings_of(kube::get_array(review, "status.user.groups"));
  if (const JsonObject* extra = kube::get_object(review, "status.user.extra")) {
    for (const auto& [key, value] : *extra) {
      if (value.is_array()) user->extra.emplace_back(key, strings_of(&value.get_array()));
    }
  }
  return user;
}

std::string bearer_token(const kube::http::Request& request) {
  const std::string_view header = request.headers.get("authorization");
  if (header.size() <= 7) return {};
  const std::string_view scheme = header.substr(0, 7);
  const bool bearer = std::equal(scheme.begin(), scheme.end(), "bearer ", [](char a, char b) { return (a | 32) == b; });
  if (!bearer) return {};
  std::string_view token = header.substr(7);
  token.remove_prefix(std::min(token.find_first_not_of(' '), token.size()));
  return token.size() > kMaxToken ? std::string() : std::string(token);
}

JsonArray to_array(const std::vector<std::string>& list) {
  JsonArray out;
  for (const std::string& text : list) out.emplace_back(text);
  return out;
}

std::string access_review_body(const User& user, const std::string& verb, const std::string& node,
                               const std::string& subresource) {
  JsonObject spec = {
      {"user", user.name},
      {"groups", to_array(user.groups)},
      {"resourceAttributes",
       JsonObject{
           {"verb", verb}, {"version", "v1"}, {"resource", "nodes"}, {"subresource", subresource}, {"name", node}}}};
  if (!user.uid.empty()) spec["uid"] = user.uid;
  if (!user.extra.empty()) {
    JsonObject extra;
    for (const auto& [key, values] : user.extra) extra[key] = to_array(values);
    spec["extra"] = std::move(extra);
  }
  return kube::to_json(JsonObject{
      {"apiVersion", "authorization.k8s.io/v1"}, {"kind", "SubjectAccessReview"}, {"spec", std::move(spec)}});
}

}  // namespace

struct Gate::Question {
  NodeId node = 0;
  std::string verb, node_name;
  std::vector<std::string> subresources;
  size_t next = 0;
  bool failed = false;
  std::shared_ptr<const User> user;
  Callback done;
};

Gate::Gate(Backend& backend, const Clock& clock, bool authenticate)
    : backend_(backend), clock_(clock), authenticate_(authenticate) {}

Gate::~Gate() { *alive_ = false; }

void Gate::check(NodeId node, const kube::http::Request& request, Callback done) {
  if (!authenticate_) return done({});
  auto question = std::make_shared<Question>();
  question->node = node;
  question->verb = verb_of(request.method);
  question->subresources = subresources_of(request.path());
  question->done = std::move(done);
  if (request.peer_certificate) {
    question->user = user_of_certificate(*request.peer_certificate);
    return authorize(std::move(question));
  }
  const std::string token = bearer_token(request);
  if (token.empty()) return question->done({401, "Unauthorized"});
  review_token(node, token, [this, question](std::shared_ptr<const User> user) {
    if (!user) return question->done({401, "Unauthorized"});
    question->user = std::move(user);
    authorize(question);
  });
}

// ---- tokens

void Gate::review_token(NodeId node, const std::string& token, UserCallback done) {
  const std::string key = digest_of(token);
  const auto known = tokens_.find(key);
  if (known != tokens_.end() && clock_.now() < known->second.expires) return done(known->second.user);
  std::vector<UserCallback>& waiting = asking_tokens_[key];
  waiting.push_back(std::move(done));
  if (waiting.size() > 1) return;
  const JsonObject review = {
      {"apiVersion", "authentication.k8s.io/v1"}, {"kind", "TokenReview"}, {"spec", JsonObject{{"token", token}}}};
  backend_.call_api(node, std::string(kTokenReviews), kube::to_json(review),
                    [this, alive = alive_, key](const ApiAnswer& answer) {
                      if (*alive) token_reviewed(key, answer);
                    });
}

void Gate::token_reviewed(const std::string& key, const ApiAnswer& answer) {
  std::shared_ptr<const User> user;
  const auto review = answer.ok() ? kube::parse_json(answer.body) : Result<Json>(unavailable("no review"));
  if (review.ok()) {
    user = user_of_review(*review);
    make_room();
    tokens_[key] = {clock_.now() + kTokenTtl, user};
  } else {
    complain("tokenreviews", answer);
  }
  auto waiting = asking_tokens_.extract(key);
  if (waiting.empty()) return;
  for (UserCallback& done : waiting.mapped()) done(user);
}

// ---- access

void Gate::authorize(std::shared_ptr<Question> question) {
  question->node_name = backend_.node(question->node).identity.name;
  next_subresource(question);
}

void Gate::next_subresource(const std::shared_ptr<Question>& question) {
  if (question->next < question->subresources.size()) {
    const std::string& subresource = question->subresources[question->next++];
    review_access(question, subresource, [this, question](Access access) {
      if (access == Access::kAllowed) return question->done({});
      question->failed |= access == Access::kError;
      next_subresource(question);
    });
    return;
  }
  const std::string what = fmt::format("(user={}, verb={}, resource=nodes, subresource(s)=[{}])", question->user->name,
                                       question->verb, fmt::join(question->subresources, " "));
  if (question->failed) return question->done({500, "Authorization error " + what + "\n"});
  question->done({403, "Forbidden " + what + "\n"});
}

void Gate::review_access(const std::shared_ptr<Question>& question, const std::string& subresource,
                         AccessCallback done) {
  const std::string body = access_review_body(*question->user, question->verb, question->node_name, subresource);
  const std::string key = digest_of(body);
  const auto known = access_.find(key);
  if (known != access_.end() && clock_.now() < known->second.expires)
    return done(known->second.allowed ? Access::kAllowed : Access::kDenied);
  std::vector<AccessCallback>& waiting = asking_access_[key];
  waiting.push_back(std::move(done));
  if (waiting.size() > 1) return;
  backend_.call_api(question->node, std::string(kAccessReviews), body,
                    [this, alive = alive_, key](const ApiAnswer& answer) {
                      if (*alive) access_reviewed(key, answer);
                    });
}

void Gate::access_reviewed(const std::string& key, const ApiAnswer& answer) {
  Access access = Access::kError;
  const auto review = answer.ok() ? kube::parse_json(answer.body) : Result<Json>(unavailable("no review"));
  if (review.ok()) {
    const bool allowed = kube::get_bool(*review, "status.allowed");
    access = allowed ? Access::kAllowed : Access::kDenied;
    make_room();
    access_[key] = {clock_.now() + (allowed ? kAllowTtl : kDenyTtl), allowed};
  } else {
    complain("subjectaccessreviews", answer);
  }
  auto waiting = asking_access_.extract(key);
  if (waiting.empty()) return;
  for (AccessCallback& done : waiting.mapped()) done(access);
}

void Gate::complain(const char* what, const ApiAnswer& answer) {
  if (clock_.now() < next_complaint_) return;
  next_complaint_ = clock_.now() + std::chrono::seconds(30);
  const std::string why = answer.status == 0 ? "the API server does not answer"
                          : answer.status == 403
                              ? "the credentials may not create them (ClusterRole system:auth-delegator)"
                              : fmt::format("HTTP {}", answer.status);
  log_warn("kubelet", fmt::format("{}: {}; requests to nodes are refused", what, why));
}

void Gate::make_room() {
  if (remembered() < kMaxEntries) return;
  const TimePoint now = clock_.now();
  std::erase_if(tokens_, [now](const auto& e) { return e.second.expires <= now; });
  std::erase_if(access_, [now](const auto& e) { return e.second.expires <= now; });
  if (remembered() < kMaxEntries) return;
  tokens_.clear();
  access_.clear();
}

}  // namespace ghostfleet::kubelet_api
