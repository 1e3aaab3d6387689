// SortedIndex: the objects of one kind in key order, in chunks of at most 512, so that a rank ("how many are before
// this key") costs a look at the chunks and not at the objects, and a scan runs over contiguous memory.
//
// Costs: find, insert and erase O(log n) comparisons plus a move within one chunk; rank O(number of chunks).
// Memory: 16 bytes per object beside the object itself. Thread rule: one owner, or a lock outside.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "controlplane/store/store.h"

namespace ghostfleet::controlplane {

class SortedIndex {
 public:
  // A place in the order; end() when there is nothing more. Any change of the index makes it stale.
  struct Position {
    size_t chunk = 0, slot = 0;
  };

  size_t size() const { return size_; }
  // The object with that key, or null.
  const ObjectRef* find(std::string_view key) const;
  // The same, to be replaced by an object with that key.
  ObjectRef* find(std::string_view key) { return const_cast<ObjectRef*>(std::as_const(*this).find(key)); }
  // Adds an object whose key is not there yet, or replaces the one with its key.
  void put(ObjectRef object);
  bool erase(std::string_view key);

  // The first object with a key >= `key`.
  Position lower_bound(std::string_view key) const;
  bool at_end(const Position& p) const { return p.chunk >= chunks_.size(); }
  const ObjectRef& at(const Position& p) const { return chunks_[p.chunk][p.slot]; }
  void advance(Position* p) const;
  size_t rank(const Position& p) const;

 private:
  static constexpr size_t kMaxChunk = 512;
  using Chunk = std::vector<ObjectRef>;

  size_t chunk_for(std::string_view key) const;
  void split(size_t chunk);

  std::vector<Chunk> chunks_;  // never an empty chunk
  size_t size_ = 0;
};

// The smallest key greater than every key that begins with `prefix`; empty for the empty prefix (no end).
std::string prefix_end(std::string_view prefix);

}  // namespace ghostfleet::controlplane
