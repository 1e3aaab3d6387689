// For tests: an Api over a fresh store, with one namespace "ns" and its service account, driven by JSON texts.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "controlplane/apiserver/api_impl.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "kube/api/codec.h"

namespace ghostfleet::controlplane {

class TestApi {
 public:
  TestApi() : api_(options(), clock_) {
    EXPECT_TRUE(create("", "namespaces", R"({"metadata":{"name":"ns"}})").ok());
    EXPECT_TRUE(create("", "serviceaccounts", R"({"metadata":{"name":"default"}})").ok());
  }

  Api& api() { return api_; }
  ManualClock& clock() { return clock_; }
  RequestContext& context() { return context_; }

  // `version` is v1 unless given.
  kube::ApiResult<kube::Json> create(std::string_view group, std::string_view resource, std::string_view text,
                                     std::string_view version = "v1") {
    const Resource* r = api_.find(group, version, resource);
    if (r == nullptr) return kube::internal_api_error("not served");
    context_.warnings.clear();
    kube::ApiResult<kube::Json> object = decode(*r, text);
    if (!object.ok()) return object;
    auto made = api_.create(*r, "ns", std::move(*object), context_);
    if (!made.ok()) return made.error();
    return api_.decode(*r, *made->object);
  }

  // Edits the live object through the endpoint `subresource`.
  template <class Change>
  kube::ApiResult<kube::Json> change(std::string_view group, std::string_view resource, std::string_view name,
                                     std::string_view subresource, Change edit) {
    const Resource* r = api_.find(group, "v1", resource);
    auto done = api_.modify(
        *r, "ns", name, subresource,
        [&edit](kube::Json& live) -> kube::ApiResult<bool> {
          edit(live);
          return true;
        },
        context_);
    if (!done.ok()) return done.error();
    return api_.decode(*r, *done->object);
  }

 private:
  static ApiOptions options() {
    ApiOptions o;
    o.managed_fields = false;
    return o;
  }

  kube::ApiResult<kube::Json> decode(const Resource& r, std::string_view text) {
    kube::DecodeOptions options;
    options.validation = kube::FieldValidation::kStrict;
    return kube::decode_object(text, kube::MediaType::kJson, r.info, options);
  }

  ManualClock clock_;
  ApiImpl api_;
  RequestContext context_ = internal_context("test");
};

// "field: message" of every cause, sorted by nothing, joined by "; "; the message when there are none.
inline std::string causes_of(const kube::ApiError& error) {
  if (error.causes.empty()) return error.message;
  std::string out;
  for (const kube::ErrorCause& c : error.causes) {
    if (!out.empty()) out += "; ";
    out += c.field + ": " + c.message;
  }
  return out;
}

}  // namespace ghostfleet::controlplane
