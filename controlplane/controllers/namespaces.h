// What every namespace gets and how it ends: NamespaceController empties and finalizes namespaces that are deleted;
// ServiceAccountController makes ServiceAccount "default", RootCaController ConfigMap "kube-root-ca.crt", and
// TokenSecretController fills secrets of type kubernetes.io/service-account-token.
//
// Thread rule: the controllers' loop.
#pragma once

#include <map>
#include <string>

#include "controlplane/controllers/context.h"

namespace ghostfleet::controlplane::controllers {

// What is left in a namespace: how many objects of a resource, and how many hold which finalizer.
struct Remaining {
  std::map<std::string, int64_t> resources;   // "deployments.apps"; core kinds "configmaps."
  std::map<std::string, int64_t> finalizers;  // "example.com/a"
  bool empty() const { return resources.empty(); }
};
std::string remaining_message(const std::map<std::string, int64_t>& resources);
std::string finalizers_message(const std::map<std::string, int64_t>& finalizers);
// Sets the five deletion conditions.
bool fill_deletion_conditions(kube::Json* ns, const Remaining& left, const std::string& failure, WallTime now);

class NamespaceController final : public Controller {
 public:
  explicit NamespaceController(Context& context);
  void start() override;

 private:
  SyncResult sync(const std::string& name);
  // Deletes up to a slice's worth; false when there is more to do at once.
  bool empty_namespace(const std::string& name, Remaining* left, std::string* failure);

  Context& context_;
  const Resource& resource_;
  WorkQueue queue_;
};

class ServiceAccountController final : public Controller {
 public:
  explicit ServiceAccountController(Context& context);
  void start() override;

 private:
  SyncResult sync(const std::string& ns);
  Context& context_;
  const Resource& namespaces_;
  const Resource& accounts_;
  WorkQueue queue_;
};

class RootCaController final : public Controller {
 public:
  explicit RootCaController(Context& context);
  void start() override;

 private:
  SyncResult sync(const std::string& ns);
  Context& context_;
  const Resource& namespaces_;
  const Resource& config_maps_;
  WorkQueue queue_;
};

class TokenSecretController final : public Controller {
 public:
  explicit TokenSecretController(Context& context);
  void start() override;

 private:
  SyncResult sync(const std::string& key);
  Context& context_;
  const Resource& secrets_;
  const Resource& accounts_;
  WorkQueue queue_;
};

}  // namespace ghostfleet::controlplane::controllers
