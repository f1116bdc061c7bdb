// SPDX-License-Identifier: Apache-2.0
// shared_key, shared_key_map: keys that a table shares with the work that runs for them.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <unordered_map>

namespace gyre::detail {

/// A key with an identity: a table finds an equal key, and comparing the pointers shows whether
/// both are the same object.
template <class Key>
using shared_key = std::shared_ptr<const Key>;

/// Hashes a shared_key like its key, and values of other types that `Hash` accepts.
template <class Key, class Hash>
struct shared_key_hash {
  using is_transparent = void;
  std::size_t operator()(const shared_key<Key>& key) const { return hash(*key); }
  template <class K>
  std::size_t operator()(const K& key) const {
    return hash(key);
  }
  [[no_unique_address]] Hash hash;
};

template <class Key, class Equal>
struct shared_key_equal {
  using is_transparent = void;
  bool operator()(const shared_key<Key>& left, const shared_key<Key>& right) const {
    return left == right || equal(*left, *right);
  }
  template <class K>
  bool operator()(const shared_key<Key>& left, const K& right) const {
    return equal(*left, right);
  }
  template <class K>
  bool operator()(const K& left, const shared_key<Key>& right) const {
    return equal(left, *right);
  }
  [[no_unique_address]] Equal equal;
};

template <class Key, class Value, class Hash, class Equal>
using shared_key_map = std::unordered_map<shared_key<Key>, Value, shared_key_hash<Key, Hash>,
                                          shared_key_equal<Key, Equal>>;

/// A type, other than that of the keys, by which transparent Hash and Equal can find a key.
template <class K, class Hash, class Equal>
concept finds_key = requires(const K& key, const Hash& hash) {
  typename Hash::is_transparent;
  typename Equal::is_transparent;
  { hash(key) } -> std::convertible_to<std::size_t>;
};

}  // namespace gyre::detail
