// ObjectWatches: the ConfigMaps and Secrets the pods of ONE node refer to, followed as a kubelet follows them: one
// watch for each, opened with the first pod that names it and closed with the last, when the object says it is
// immutable, or when nobody has read it for five minutes (volumes and pull secrets are read again with every sync of
// their pod, variables once). The next read opens it again.
//
// Thread rule: the shard's loop. Ownership: the client and the generator outlive it; answers come from the loop, never
// from inside read(), and none after destruction.
// Source: the requests of a kubelet 1.36 (docs/fidelity.md).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/actions.h"
#include "base/random.h"
#include "kube/api/json.h"
#include "kube/client/reflector.h"

namespace ghostfleet::emulator {

struct ObjectReference {
  bool secret = false;
  bool kept = false;  // read again and again
  std::string name;
};
// What a pod needs: of its volumes, variables and pull secrets. Each object once.
std::vector<ObjectReference> object_references(const kube::Json& pod);
// Whether a target is a GET of one ConfigMap or Secret; then its parts.
bool parse_object_target(std::string_view target, bool* secret, std::string* ns, std::string* name);

class ObjectWatches {
 public:
  // 200 when the object is there, 404 when it is not, 0 when the watch did not begin within a second. The body, valid
  // during the call, holds the object's keys without their values: nothing secret is kept. Only with
  // `Keep::kPullSecrets` those of the types that pulls of images need are kept whole.
  using Answer = std::function<void(int status, std::string_view body)>;

  enum class Keep : unsigned char { kKeys, kPullSecrets };

  ObjectWatches(kube::KubeClient& client, Rng& rng, Keep keep = Keep::kKeys);
  ~ObjectWatches();
  ObjectWatches(const ObjectWatches&) = delete;
  ObjectWatches& operator=(const ObjectWatches&) = delete;

  void add_pod(const std::string& uid, std::string_view ns, const kube::Json& pod);
  void remove_pod(const std::string& uid);
  void read(bool secret, const std::string& ns, const std::string& name, Answer answer);
  size_t open() const;  // watches

 private:
  class Entry;
  using Key = std::string;  // "configmaps/NS/NAME"
  Entry& entry(bool secret, std::string_view ns, const std::string& name);
  void look_for_idle();

  kube::KubeClient& client_;
  Rng& rng_;
  Keep keep_;
  std::map<Key, std::unique_ptr<Entry>> entries_;
  std::map<std::string, std::vector<Key>> pods_;  // by uid
  EventLoop::TimerId idle_timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ghostfleet::emulator
