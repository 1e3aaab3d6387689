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

struct OpenApiSet {
  kube::OpenApiDocument index;
  std::map<std::string, kube::OpenApiDocument> documents;  // by "apis/apps/v1"
  kube::OpenApiDocument v2;                                // protobuf, for kubectl before 1.31
};

class Documents {
 public:
  explicit Documents(const ApiImpl& api) : api_(api) {}

  kube::KindList kinds() const;
  // Aggregated discovery of the core group or of all others, with its ETag.
  std::shared_ptr<const kube::OpenApiDocument> aggregated(bool core);
  std::shared_ptr<const OpenApiSet> openapi();

 private:
  void refresh_locked();

  const ApiImpl& api_;
  std::mutex mutex_;
  uint64_t version_ = ~uint64_t(0);
  std::shared_ptr<const kube::OpenApiDocument> core_, groups_;
  std::shared_ptr<const OpenApiSet> openapi_;
};

}  // namespace ghostfleet::controlplane
