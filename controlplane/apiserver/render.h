// Renderer: the store's objects as the bytes of an answer, in the negotiated encoding and transform. Plain JSON is the
// stored bytes themselves.
//
// Thread rule: immutable after construction; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "controlplane/apiserver/api.h"
#include "controlplane/apiserver/negotiation.h"
#include "kube/api/table.h"

namespace ghostfleet::controlplane {

struct ListMeta {
  std::string resource_version, continue_token;
  size_t remaining = 0;  // 0: not said
};

// Any value in an encoding: `type_name` ("meta/v1.Status") is needed for protobuf and for the order of keys.
std::string render_value(const kube::Json& value, const AnswerType& answer, std::string_view type_name);
// The type of an object of the API by its apiVersion and kind; empty when the field table has none.
std::string type_name_of(const kube::Json& object);

class Renderer {
 public:
  Renderer(const Api& api, const Resource& resource, AnswerType answer, kube::IncludeObject include);

  const AnswerType& answer() const { return answer_; }
  std::string object(const Object& object) const;
  // Items of a list; join them with separator() between list_head() and list_tail().
  void append_item(const Object& object, std::string* out) const;
  std::string list_head(const ListMeta& meta) const;
  std::string_view separator() const { return ","; }
  std::string list_tail() const;
  // Protobuf, YAML and pretty lists are made whole.
  bool streams_lists() const;
  std::string whole_list(const ListMeta& meta, const std::vector<ObjectRef>& objects) const;

  // The object inside a watch event. `first`: Tables carry their columns in the first event only.
  std::string watch_object(const Object& object, bool first) const;
  std::string bookmark_object(std::string_view revision, bool initial_end, bool first) const;
  // A frame of the stream from its object (JSON text, or a protobuf envelope).
  std::string frame(std::string_view type, std::string_view object) const;

 private:
  kube::Json decoded(const Object& object) const;
  // The stored bytes are the answer's, in plain JSON.
  bool stored_as_served() const;
  std::string plain_json(const Object& object) const;
  std::string partial_json(const Object& object) const;
  std::string table_json(const std::vector<const Object*>& objects, const ListMeta& meta, bool columns) const;
  std::string item_protobuf(const Object& object) const;
  std::string partial_protobuf(const kube::Json& object) const;
  std::string list_kind() const;
  std::string list_api_version() const;

  const Api& api_;
  const Resource& resource_;
  const AnswerType answer_;
  const kube::IncludeObject include_;
  const kube::TablePrinter& printer_;
};

}  // namespace ghostfleet::controlplane
