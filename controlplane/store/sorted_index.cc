#include "controlplane/store/sorted_index.h"

#include <algorithm>
#include <iterator>

namespace ghostfleet::controlplane {
namespace {

bool key_less(const ObjectRef& object, std::string_view key) { return object->key < key; }

}  // namespace

// The last chunk whose first key is <= key, or the first chunk.
size_t SortedIndex::chunk_for(std::string_view key) const {
  auto it = std::upper_bound(chunks_.begin(), chunks_.end(), key,
                             [](std::string_view k, const Chunk& c) { return k < c.front()->key; });
  return it == chunks_.begin() ? 0 : static_cast<size_t>(it - chunks_.begin()) - 1;
}

const ObjectRef* SortedIndex::find(std::string_view key) const {
  if (chunks_.empty()) return nullptr;
  const Chunk& chunk = chunks_[chunk_for(key)];
  auto it = std::lower_bound(chunk.begin(), chunk.end(), key, key_less);
  return it != chunk.end() && (*it)->key == key ? &*it : nullptr;
}

void SortedIndex::put(ObjectRef object) {
  if (chunks_.empty()) {
    chunks_.emplace_back().push_back(std::move(object));
    size_ = 1;
    return;
  }
  const size_t index = chunk_for(object->key);
  Chunk& chunk = chunks_[index];
  auto it = std::lower_bound(chunk.begin(), chunk.end(), std::string_view(object->key), key_less);
  if (it != chunk.end() && (*it)->key == object->key) {
    *it = std::move(object);
    return;
  }
  chunk.insert(it, std::move(object));
  size_++;
  if (chunk.size() > kMaxChunk) split(index);
}

void SortedIndex::split(size_t index) {
  Chunk upper;
  Chunk& lower = chunks_[index];
  // Keys often arrive in order (node-00001, node-00002): then the lower chunk stays full.
  const bool appending = index + 1 == chunks_.size();
  const size_t keep = appending ? kMaxChunk - 32 : lower.size() / 2;
  upper.reserve(kMaxChunk + 1);
  std::move(lower.begin() + static_cast<ptrdiff_t>(keep), lower.end(), std::back_inserter(upper));
  lower.resize(keep);
  chunks_.insert(chunks_.begin() + static_cast<ptrdiff_t>(index) + 1, std::move(upper));
}

bool SortedIndex::erase(std::string_view key) {
  if (chunks_.empty()) return false;
  const size_t index = chunk_for(key);
  Chunk& chunk = chunks_[index];
  auto it = std::lower_bound(chunk.begin(), chunk.end(), key, key_less);
  if (it == chunk.end() || (*it)->key != key) return false;
  chunk.erase(it);
  size_--;
  if (chunk.empty()) chunks_.erase(chunks_.begin() + static_cast<ptrdiff_t>(index));
  return true;
}

SortedIndex::Position SortedIndex::lower_bound(std::string_view key) const {
  if (chunks_.empty()) return {0, 0};
  const size_t index = chunk_for(key);
  const Chunk& chunk = chunks_[index];
  const auto slot = static_cast<size_t>(std::lower_bound(chunk.begin(), chunk.end(), key, key_less) - chunk.begin());
  return slot == chunk.size() ? Position{index + 1, 0} : Position{index, slot};
}

void SortedIndex::advance(Position* p) const {
  if (++p->slot < chunks_[p->chunk].size()) return;
  p->chunk++;
  p->slot = 0;
}

size_t SortedIndex::rank(const Position& p) const {
  size_t before = p.slot;
  for (size_t i = 0; i < p.chunk && i < chunks_.size(); i++) before += chunks_[i].size();
  return before;
}

std::string prefix_end(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty()) {
    if (static_cast<unsigned char>(end.back()) != 0xff) {
      end.back() = static_cast<char>(end.back() + 1);
      return end;
    }
    end.pop_back();
  }
  return end;
}

}  // namespace ghostfleet::controlplane
