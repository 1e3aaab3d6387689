// Documents: discovery and OpenAPI, made from the table of served resources and kept until the table changes.
//
// Thread rule: any thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "controlplane/apiserver/api_impl.h"
#include "kube/api/openapi.h"

namespace ghostfleet::controlplane {

class Aggregator;

// Of this server's own kinds.
struct OpenApiSet {
  kube::OpenApiDocument index;
  std::map<std::string, kube::OpenApiDocument> documents;  // by "apis/apps/v1"
  kube::OpenApiDocument v2;                                // protobuf, for kubectl before 1.31
};

class Documents {
 public:
  Documents(const ApiImpl& api, const Aggregator& aggregator) : api_(api), aggregator_(aggregator) {}

  // Those of this server, then those of aggregated ones.
  kube::KindList kinds() const;
  // Aggregated discovery of the core group or of all others, with its ETag.
  std::shared_ptr<const kube::OpenApiDocument> aggregated(bool core);
  std::shared_ptr<const OpenApiSet> openapi();

 private:
  kube::KindList own_kinds() const;
  void refresh_locked();

  const ApiImpl& api_;
  const Aggregator& aggregator_;
  std::mutex mutex_;
  uint64_t version_ = ~uint64_t(0), remote_version_ = 0;
  std::shared_ptr<const kube::OpenApiDocument> core_, groups_;
  std::shared_ptr<const OpenApiSet> openapi_;
};

}  // namespace ghostfleet::controlplane
