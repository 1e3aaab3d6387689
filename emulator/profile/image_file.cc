#include "emulator/profile/image_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "kube/api/quantity.h"

namespace ghostfleet::emulator {

const std::vector<std::pair<std::string_view, std::string_view>>& embedded_images();

namespace {

constexpr int64_t kLargest = int64_t{1} << 40;
constexpr double kUsualGrowth = 2.2;  // unpacked to compressed, when only the latter is told
constexpr double kMega = 1e6;

// What is said of a layer wherever its id stands must be the same.
struct NamedLayer {
  int64_t compressed = 0, unpacked = 0;
  std::string at;
};
using NamedLayers = std::map<std::string, NamedLayer, std::less<>>;

int64_t read_size(ObjectReader* reader, std::string_view key, int64_t low, int64_t fallback) {
  const std::string text = reader->text(key);
  if (text.empty()) return fallback;
  const auto quantity = kube::Quantity::parse(text);
  const int64_t bytes = quantity.ok() ? quantity->value() : -1;
  if (bytes >= low && bytes <= kLargest) return bytes;
  reader->complain(key, "\"" + text + "\"", fmt::format("a size from {} to 1Ti is expected, like 600M or 1.5Gi", low));
  return fallback;
}

int64_t grown(int64_t compressed) { return std::llround(static_cast<double>(compressed) * kUsualGrowth); }

ImageLayer read_layer(ObjectReader* reader, NamedLayers* named) {
  ImageLayer layer;
  layer.id = reader->text("id");
  if (!reader->has("compressed")) reader->complain_missing("compressed");
  layer.compressed = read_size(reader, "compressed", 1, 1);
  layer.unpacked = read_size(reader, "unpacked", 0, grown(layer.compressed));
  reader->finish();
  if (layer.id.empty()) return layer;
  const auto [it, fresh] =
      named->try_emplace(layer.id, NamedLayer{layer.compressed, layer.unpacked, reader->path_of("")});
  const NamedLayer& before = it->second;
  if (!fresh && (before.compressed != layer.compressed || before.unpacked != layer.unpacked)) {
    reader->complain("id", "\"" + layer.id + "\"",
                     fmt::format("this layer has other sizes at {}: compressed {}, unpacked {} are expected", before.at,
                                 before.compressed, before.unpacked));
  }
  return layer;
}

// An image of which only the size is told: so many layers of one size.
std::vector<ImageLayer> read_plain(ObjectReader* reader) {
  if (!reader->has("compressed")) reader->complain("", "", "layers, or compressed, is expected");
  const int64_t compressed = read_size(reader, "compressed", 1, 1);
  const int64_t unpacked = read_size(reader, "unpacked", 0, grown(compressed));
  const int64_t count = reader->integer("layerCount", 1, static_cast<int64_t>(kMostLayers), 6);
  std::vector<ImageLayer> layers;
  for (int64_t i = 0; i < count; ++i) {
    const auto part = [&](int64_t whole) { return whole * (i + 1) / count - whole * i / count; };
    layers.push_back({"", part(compressed), part(unpacked)});
  }
  return layers;
}

ImageEntry read_image(ObjectReader* reader, NamedLayers* named) {
  ImageEntry entry;
  entry.match = reader->required_text("match");
  if (!reader->has("layers")) {
    entry.layers = read_plain(reader);
    reader->finish();
    return entry;
  }
  for (const char* key : {"compressed", "unpacked", "layerCount"}) {
    if (reader->has(key)) reader->complain(key, reader->text(key), "follows from the layers: leave it out");
  }
  std::vector<ObjectReader> layers = reader->list("layers");
  if (layers.empty()) reader->complain("layers", "", "at least one layer {compressed: 600M} is expected");
  if (layers.size() > kMostLayers) {
    reader->complain("layers", std::to_string(layers.size()), fmt::format("at most {} layers", kMostLayers));
    layers.erase(layers.begin() + static_cast<std::ptrdiff_t>(kMostLayers), layers.end());
  }
  for (ObjectReader& layer : layers) entry.layers.push_back(read_layer(&layer, named));
  reader->finish();
  return entry;
}

std::vector<ImageEntry> read_images(ObjectReader* reader, std::string_view key) {
  std::vector<ImageEntry> entries;
  NamedLayers named;
  std::map<std::string, size_t> seen;
  std::vector<ObjectReader> list = reader->list(key);
  if (list.size() > kMostImages) {
    reader->complain(key, std::to_string(list.size()), fmt::format("at most {} images", kMostImages));
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(kMostImages), list.end());
  }
  for (ObjectReader& item : list) {
    entries.push_back(read_image(&item, &named));
    const std::string& match = entries.back().match;
    const auto [it, fresh] = seen.try_emplace(match, entries.size() - 1);
    if (!fresh && !match.empty()) {
      item.complain("match", "\"" + match + "\"",
                    fmt::format("{}[{}] matches the same: one of them is expected to go", key, it->second));
    }
  }
  return entries;
}

double read_rate(ObjectReader* reader, std::string_view key, double fallback) {
  return reader->number(key, 0.001, 1e9, fallback / kMega) * kMega;
}

RegistryLimit read_registry(ObjectReader* reader) {
  RegistryLimit limit;
  limit.match = reader->text("match", "*");
  limit.requests_per_second = reader->number("requestsPerSecond", 0.001, 1e9, 0);
  if (!reader->has("requestsPerSecond")) reader->complain_missing("requestsPerSecond");
  const auto usual = std::max<int64_t>(static_cast<int64_t>(limit.requests_per_second), 1);
  limit.burst = reader->integer("burst", 1, 1000000000, usual);
  reader->finish();
  return limit;
}

void read_kubelet(ObjectReader* reader, PullOptions* o) {
  o->serialize = reader->boolean("serializeImagePulls", o->serialize);
  o->max_parallel = reader->integer("maxParallelImagePulls", 0, 1000000, o->max_parallel);
  if (o->serialize && o->max_parallel > 1)
    reader->complain("maxParallelImagePulls", std::to_string(o->max_parallel), "needs serializeImagePulls: false");
  o->pull_qps = reader->number("registryPullQPS", 0, 1e6, o->pull_qps);
  o->pull_burst = reader->integer("registryBurst", 1, 1000000, o->pull_burst);
  o->gc_high_percent = static_cast<int>(reader->integer("imageGCHighThresholdPercent", 1, 100, o->gc_high_percent));
  o->gc_low_percent = static_cast<int>(reader->integer("imageGCLowThresholdPercent", 0, 100, o->gc_low_percent));
  if (o->gc_low_percent >= o->gc_high_percent) {
    reader->complain("imageGCLowThresholdPercent", std::to_string(o->gc_low_percent),
                     fmt::format("less than imageGCHighThresholdPercent ({}) is expected", o->gc_high_percent));
  }
  o->gc_minimum_age = reader->duration("imageMinimumGCAge", o->gc_minimum_age);
}

void read_runtime(ObjectReader* reader, PullOptions* o) {
  constexpr std::string_view kNames[] = {"default", "parallel", "lazy"};
  const std::string puller =
      reader->one_of("puller", {"default", "parallel", "lazy"}, kNames[static_cast<size_t>(o->puller)]);
  o->puller = puller == "parallel" ? Puller::kParallel : puller == "lazy" ? Puller::kLazy : Puller::kDefault;
  o->keep_compressed = !reader->boolean("discardUnpackedLayers", !o->keep_compressed);
  o->progress_timeout = reader->duration("progressTimeout", o->progress_timeout);
  o->first_use = reader->number("lazyFirstUse", 0, 1, o->first_use);
  o->stalled_share = reader->number("stalledShare", 0, 1, o->stalled_share);
}

void read_machine(ObjectReader* reader, PullOptions* o) {
  if (reader->has("networkMBps")) o->network_rate = read_rate(reader, "networkMBps", 1e9);
  o->disk_rate = read_rate(reader, "diskMBps", o->disk_rate);
  o->unpack_rate = read_rate(reader, "unpackMBps", o->unpack_rate);
  o->connection_rate = read_rate(reader, "connectionMBps", o->connection_rate);
  o->disk_capacity = read_size(reader, "diskSize", 1, o->disk_capacity);
  o->disk_other = read_size(reader, "diskUsedByOthers", 0, o->disk_other);
}

void read_settings(ObjectReader* reader, ImageModel* model) {
  read_kubelet(reader, &model->pull);
  read_runtime(reader, &model->pull);
  read_machine(reader, &model->pull);
  model->store_rate = read_rate(reader, "storeMBps", model->store_rate);
  for (ObjectReader& item : reader->list("registries")) model->registries.push_back(read_registry(&item));
}

}  // namespace

Result<ImageModel> parse_image_file(std::string_view text, std::string file) {
  auto document = Document::parse(text, std::move(file));
  if (!document.ok()) return document.error();
  ObjectReader root(&*document, &document->root(), "");
  root.one_of("apiVersion", {"ghostfleet.dev/v1alpha1"}, "");
  root.one_of("kind", {"Images"}, "");
  GF_RETURN_IF_ERROR(document->status());  // another kind of file: its fields would all be complained of
  ObjectReader metadata = root.object("metadata");
  metadata.text("name");
  metadata.finish();
  ObjectReader spec = root.object("spec");
  root.finish();
  ImageModel model;
  ObjectReader settings = spec.object("settings");
  read_settings(&settings, &model);
  settings.finish();
  model.images = read_images(&spec, "images");
  spec.finish();
  GF_RETURN_IF_ERROR(document->status());
  return model;
}

const std::vector<ImageEntry>& built_in_images() {
  static const std::vector<ImageEntry> images = [] {
    std::vector<ImageEntry> all;
    for (const auto& [file, text] : embedded_images()) {
      const auto model = parse_image_file(text, std::string(file));
      // A test reads every one of them.
      if (model.ok()) all.insert(all.end(), model->images.begin(), model->images.end());
    }
    return all;
  }();
  return images;
}

std::shared_ptr<const ImageModel> with_built_in_images(const ImageModel& model) {
  auto all = std::make_shared<ImageModel>(model);
  all->images.insert(all->images.end(), built_in_images().begin(), built_in_images().end());
  return all;
}

void read_pull_options(ObjectReader* reader, PullOptions* options) {
  read_kubelet(reader, options);
  read_runtime(reader, options);
  read_machine(reader, options);
  reader->finish();
}

void read_image_model(ObjectReader* reader, ImageModel* model) {
  read_settings(reader, model);
  model->images = read_images(reader, "catalogue");
  reader->finish();
}

}  // namespace ghostfleet::emulator
