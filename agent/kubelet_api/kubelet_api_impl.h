// What the .cc files of KubeletApi share. Not for others.
//
// Thread rule: the loop of the exchanges.
#pragma once

#include "agent/kubelet_api/kubelet_api.h"

namespace ghostfleet::kubelet_api {

// One request on its way through.
struct KubeletApi::Call {
  NodeId node = 0;
  Route route;
  std::shared_ptr<kube::http::Exchange> exchange;

  const kube::http::Request& request() const { return exchange->request(); }
  void text(int status, std::string body) const {
    exchange->respond(status, {{"content-type", "text/plain; charset=utf-8"}}, share(std::move(body)));
  }
  void json(std::string body) const {
    exchange->respond(200, {{"content-type", "application/json"}}, share(std::move(body)));
  }
};

// What lives as long as a client's connection.
class KubeletApi::Session {
 public:
  virtual ~Session() = default;
  bool dropped = false;
};

}  // namespace ghostfleet::kubelet_api
