// Reflector: follows one collection of the API (a kind, perhaps narrowed by selectors) and tells a handler about every
// object in it. It lists in pages or by a streaming list, watches with bookmarks, resumes from the last version, and
// lists again when the version is gone. It keeps no object; only names and versions when asked.
//
// A watch that is cut inside an object delivers nothing of it: the next watch begins at the last complete event.
// Errors (no connection, 401, 403, 429, 5xx) are retried for ever with back-off 0.8 s, doubled to 30 s, times [1,2);
// reset when a watch lived two minutes. Source: the reflectors of a kubelet 1.36.
//
// Thread rule: the client's loop. Ownership: the handler and the client must outlive the reflector; the handler may
// stop the reflector from a callback, but destroy it only outside of one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "kube/client/client.h"

namespace ghostfleet::kube {

// An object as it came; every view is valid during the call only.
struct ObjectView {
  std::string_view json;  // the object's bytes, unchanged. In items of a list apiVersion and kind may be missing
  std::string_view ns;    // empty: not namespaced
  std::string_view name;
  std::string_view uid;
  std::string_view resource_version;
};

class ReflectorHandler {
 public:
  virtual ~ReflectorHandler() = default;
  virtual void on_added(const ObjectView& object) = 0;
  virtual void on_modified(const ObjectView& object) = 0;
  // Of a deletion that was missed (found by listing again) only ns and name are known, and json is empty.
  virtual void on_deleted(const ObjectView& object) = 0;
  // The list is complete: everything that existed has been told. Called again after each further list.
  virtual void on_synced() = 0;
  // A list begins anew (first start, or the version was gone). With Keep::kNothing every object comes as on_added
  // again, and what does not come until on_synced is gone.
  virtual void on_list_begin() {}
  // For logs and counters; the reflector goes on by itself. `http_status` 0: no answer.
  virtual void on_error(const Status& status, int http_status) {
    (void)status;
    (void)http_status;
  }
};

struct ReflectorOptions {
  enum class Keep : unsigned char {
    kNothing,          // the handler sorts out what a further list means
    kNamesAndVersions  // a further list is turned into added, modified and deleted
  };
  std::string path;  // "/api/v1/pods", "/api/v1/namespaces/x/secrets"
  std::string field_selector, label_selector;
  bool streaming_list = true;  // sendInitialEvents; falls back to pages when the server refuses it
  int page_size = 500;
  bool timeout_parameter = true;  // also send timeout=7m24s, as typed clients do
  Duration min_timeout = std::chrono::seconds(300), max_timeout = std::chrono::seconds(600);
  Duration backoff_base = std::chrono::milliseconds(800), backoff_cap = std::chrono::seconds(30);
  Keep keep = Keep::kNothing;
  http::Lane lane = http::Lane::kNormal;
  uint64_t seed = 1;
  size_t max_object_bytes = 16u << 20;  // a longer line or frame ends the watch with an error
  // Watches are asked for in protobuf, as by a kubelet (pages of a list in JSON); what is told is JSON all the same.
  bool protobuf = false;
  bool metadata_only = false;  // with protobuf: objects are told with their metadata alone
};

class Reflector {
 public:
  static std::unique_ptr<Reflector> create(KubeClient& client, ReflectorOptions options, ReflectorHandler* handler);
  virtual ~Reflector() = default;

  virtual void start() = 0;
  // No further callback. May be started again (it lists anew).
  virtual void stop() = 0;
  virtual bool synced() const = 0;
  // The version the next watch would begin at; empty before the first list.
  virtual const std::string& resource_version() const = 0;
};

}  // namespace ghostfleet::kube
