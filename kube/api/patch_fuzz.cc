#include <cstdint>
#include <string>
#include <vector>

#include "kube/api/patch.h"

using namespace ghostfleet::kube;

// The input is a target and a patch, parted by a line end; every kind of patch must survive it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TypeInfo* const pod = find_type("core/v1.Pod");
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t cut = text.find('\n');
  if (cut == std::string_view::npos) return 0;
  JsonParseOptions options;
  options.max_depth = 200;
  auto target = parse_json(text.substr(0, cut), options);
  auto patch = parse_json(text.substr(cut + 1), options);
  if (!target.ok() || !patch.ok()) return 0;
  (void)apply_json_patch(*target, *patch);
  (void)apply_merge_patch(*target, *patch);
  if (auto merged = apply_strategic_merge_patch(*target, *patch, *pod); merged.ok()) {
    (void)conversion_problem(*merged, *pod);
  }
  (void)make_strategic_merge_patch(*target, *patch, *pod);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      R"({"spec":{"containers":[{"name":"a","env":[{"name":"X"}]}]}})"
      "\n"
      R"({"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"a"}],"containers":[{"name":"b"},{"name":"a","$patch":"delete"}]}})",
      "{\"a\":[1,2]}\n[{\"op\":\"add\",\"path\":\"/a/-\",\"value\":3},{\"op\":\"move\",\"from\":\"/a/0\",\"path\":\"/"
      "b\"}]",
      "{\"metadata\":{\"finalizers\":[\"a\"]}}\n{\"metadata\":{\"$deleteFromPrimitiveList/finalizers\":[\"a\"]}}",
      "{\"spec\":{\"volumes\":[{\"name\":\"v\",\"emptyDir\":{}}]}}\n{\"spec\":{\"volumes\":[{\"$retainKeys\":[\"name\"]"
      ",\"name\":\"v\"}]}}",
  };
}
