// CustomKinds: follows the CustomResourceDefinitions and serves what they define, from the moment they are written.
// When one is deleted it deletes the objects, and lets the definition go when none is left.
//
// Thread rule: its listener runs on the thread of whoever writes a definition; clean_up() on one thread. Outlives every
// request.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "controlplane/apiserver/api_impl.h"

namespace ghostfleet::controlplane {

class CustomKinds {
 public:
  // `wake` asks for a call of clean_up(); from any thread.
  static std::unique_ptr<CustomKinds> create(ApiImpl& api, std::function<void()> wake);

  enum class Left : unsigned char { kNothing, kWork, kWaiting };
  // Deletes up to `max` objects of definitions that are being deleted. kWork: call again soon; kWaiting: finalizers
  // hold what is left, call again in a while.
  Left clean_up(size_t max);

 private:
  // A definition on its way out, and those of its objects that are not deleted yet.
  struct Ending {
    bool begun = false;
    std::vector<ObjectRef> objects;
  };

  CustomKinds(ApiImpl& api, std::function<void()> wake) : api_(api), wake_(std::move(wake)) {}
  void follow(const ObjectRef& definition, bool gone);
  void serve(const kube::Json& definition);
  void establish(const kube::Json& definition);
  Left clean_up_one(const std::string& name, Ending* ending, size_t max);
  bool begin(const std::string& name, const Resource* resource, Ending* ending);
  void finish(const std::string& name, std::string_view reason, std::string_view message);

  ApiImpl& api_;
  std::function<void()> wake_;
  std::mutex mutex_;
  std::vector<std::string> ending_names_;  // told by the listener, not taken up yet
  std::map<std::string, Ending> ending_;   // of clean_up()
};

}  // namespace ghostfleet::controlplane
