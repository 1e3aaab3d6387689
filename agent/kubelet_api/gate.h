// Gate: who may ask a node's server for what. A client certificate that TLS has verified, or a bearer token by
// TokenReview, says who it is; a SubjectAccessReview for resource nodes, by path, says whether they may. Answers of
// both are kept for a while; requests that ask the same at the same time share one review.
//
// Thread rule: the loop of the server. Ownership: the backend outlives the gate; the gate outlives its callbacks.
// Limits: kMaxEntries remembered reviews; tokens are kept as digests only.
// Source: kubernetes.io, Kubelet authentication/authorization; a kubelet 1.36.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/kubelet_api/backend.h"
#include "kube/http/message.h"

namespace ghostfleet::kubelet_api {

struct User {
  std::string name, uid;
  std::vector<std::string> groups;
  std::vector<std::pair<std::string, std::vector<std::string>>> extra;
};

// What the gate says: let in, or the answer to send.
struct Verdict {
  int status = 200;  // 401, 403, 500 else
  std::string text;
  bool ok() const { return status == 200; }
};

class Gate {
 public:
  using Callback = std::function<void(Verdict)>;
  static constexpr size_t kMaxEntries = 200000;
  static constexpr Duration kTokenTtl = std::chrono::minutes(2);
  static constexpr Duration kAllowTtl = std::chrono::minutes(5);
  static constexpr Duration kDenyTtl = std::chrono::seconds(30);

  // `authenticate` off: everybody may do everything (a server that is told so).
  Gate(Backend& backend, const Clock& clock, bool authenticate);
  ~Gate();

  // `done` may be called from inside.
  void check(NodeId node, const kube::http::Request& request, Callback done);
  size_t remembered() const { return tokens_.size() + access_.size(); }

 private:
  struct TokenEntry {
    TimePoint expires;
    std::shared_ptr<const User> user;  // null: the token is none
  };
  struct AccessEntry {
    TimePoint expires;
    bool allowed = false;
  };
  enum class Access : unsigned char { kAllowed, kDenied, kError };
  using UserCallback = std::function<void(std::shared_ptr<const User>)>;
  using AccessCallback = std::function<void(Access)>;
  struct Question;

  void review_token(NodeId node, const std::string& token, UserCallback done);
  void token_reviewed(const std::string& key, const ApiAnswer& answer);
  void authorize(std::shared_ptr<Question> question);
  void next_subresource(const std::shared_ptr<Question>& question);
  void review_access(const std::shared_ptr<Question>& question, const std::string& subresource, AccessCallback done);
  void access_reviewed(const std::string& key, const ApiAnswer& answer);
  void complain(const char* what, const ApiAnswer& answer);
  void make_room();

  Backend& backend_;
  const Clock& clock_;
  bool authenticate_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unordered_map<std::string, TokenEntry> tokens_;   // by digest
  std::unordered_map<std::string, AccessEntry> access_;  // by digest
  std::unordered_map<std::string, std::vector<UserCallback>> asking_tokens_;
  std::unordered_map<std::string, std::vector<AccessCallback>> asking_access_;
  TimePoint next_complaint_;
};

}  // namespace ghostfleet::kubelet_api
