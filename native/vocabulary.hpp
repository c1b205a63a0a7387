// Names to codes in the order of first appearance: the one hash table of the library.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace starcast {

// A whole number of 64 bits in the one way of writing it that survives a round trip ("7", "-12", never "007" or "+7").
inline bool parse_canonical_integer(std::string_view text, int64_t& value) {
  const bool negative = !text.empty() && text[0] == '-';
  const std::string_view digits = text.substr(negative ? 1 : 0);
  if (digits.empty() || digits.size() > 19) return false;
  if (digits[0] == '0' && (digits.size() > 1 || negative)) return false;
  uint64_t number = 0;  // 19 digits always fit
  for (const char c : digits) {
    if (c < '0' || c > '9') return false;
    number = number * 10 + static_cast<uint64_t>(c - '0');
  }
  if (number > static_cast<uint64_t>(INT64_MAX) + (negative ? 1 : 0)) return false;
  value = static_cast<int64_t>(negative ? 0 - number : number);
  return true;
}

// Maps keys to 0, 1, 2, … in the order in which they are first seen. Keys are 64-bit hashes plus an equality test on
// the stored key, kept in one flat table with linear probing.
template <class Key>
class Codes {
 public:
  template <class KeyOf>
  int32_t find_or_add(uint64_t hash, const Key& key, const KeyOf& key_of, int32_t next) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    size_t at = hash & (slots_.size() - 1);
    while (slots_[at].code >= 0) {
      if (slots_[at].hash == hash && key_of(slots_[at].code) == key) return slots_[at].code;
      at = (at + 1) & (slots_.size() - 1);
    }
    slots_[at] = {hash, next};
    ++used_;
    return next;
  }

 private:
  struct Slot {
    uint64_t hash = 0;
    int32_t code = -1;
  };

  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : 2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.code < 0) continue;
      size_t at = slot.hash & (slots_.size() - 1);
      while (slots_[at].code >= 0) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = slot;
    }
  }

  std::vector<Slot> slots_;
  size_t used_ = 0;
};

// The finaliser of MurmurHash3: every input bit moves every output bit.
inline uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

inline uint64_t hash_text(std::string_view text) {
  uint64_t hash = text.size();
  size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    hash = mix(hash ^ word);
  }
  uint64_t tail = 0;
  if (at < text.size()) std::memcpy(&tail, text.data() + at, text.size() - at);
  return mix(hash ^ tail);
}

// Small whole numbers, which most ids are, index an array directly; the rest go through the hash table.
constexpr int64_t kDirect = 1 << 20;

// Names as they stand in a file. The text that names point to must outlive the vocabulary.
class TextVocabulary {
 public:
  int32_t code(std::string_view text) {
    int64_t number;
    const bool integer = parse_canonical_integer(text, number);
    if (integer && number >= 0 && number < kDirect) {
      if (number >= static_cast<int64_t>(direct_.size())) direct_.resize(2 * number + 64, -1);
      int32_t& slot = direct_[number];
      if (slot < 0) slot = add(text);
      return slot;
    }
    all_integers_ &= integer;
    const auto next = static_cast<int32_t>(names_.size());
    const int32_t found = codes_.find_or_add(hash_text(text), text, [this](int32_t c) { return names_[c]; }, next);
    if (found == next) add(text);
    return found;
  }

  // Text that is not in the file as such (a quoted field with doubled quotes) is kept here.
  std::string_view keep(std::string text) { return kept_.emplace_back(std::move(text)); }

  const std::vector<std::string_view>& names() const { return names_; }
  bool all_integers() const { return all_integers_; }

 private:
  int32_t add(std::string_view text) {
    names_.push_back(text);
    return static_cast<int32_t>(names_.size()) - 1;
  }

  std::vector<std::string_view> names_;
  std::vector<int32_t> direct_;
  Codes<std::string_view> codes_;
  std::deque<std::string> kept_;
  bool all_integers_ = true;
};

}  // namespace starcast
