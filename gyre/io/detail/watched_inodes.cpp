// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/watched_inodes.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <tuple>

namespace gyre::io::detail {

watched_inode& watched_inodes::add(int watch_descriptor, program_watch& watch,
                                   watched_inode* parent, std::string name) {
  const auto entry =
      table_.emplace(std::piecewise_construct, std::forward_as_tuple(watch_descriptor),
                     std::forward_as_tuple(watch_descriptor, watch));
  watched_inode& new_inode = entry->second;
  new_inode.name = std::move(name);
  new_inode.generation = watch.generation;
  if (parent == nullptr) {
    watch.top = &new_inode;
    return new_inode;
  }
  try {
    parent->children.emplace(new_inode.name, &new_inode);
  } catch (...) {
    table_.erase(entry);
    throw;
  }
  new_inode.parent = parent;
  return new_inode;
}

void watched_inodes::move(watched_inode& inode, watched_inode& parent, std::string name,
                          order rank) {
  auto entry = inode.parent->children.extract(entry_of(inode));
  inode.parent = &parent;
  inode.name = std::move(name);
  entry.key() = inode.name;
  auto& entries = parent.children;
  entries.insert(
      rank == order::oldest ? entries.lower_bound(inode.name) : entries.upper_bound(inode.name),
      std::move(entry));
}

void watched_inodes::detach(watched_inode& inode) noexcept {
  if (inode.is_top()) {
    inode.watch.top = nullptr;
    return;
  }
  inode.parent->children.erase(entry_of(inode));
}

// Returns the entry of `inode` among the children of its parent.
watched_inodes::children::iterator watched_inodes::entry_of(watched_inode& inode) noexcept {
  return std::ranges::find(named(*inode.parent, inode.name), &inode, &children::value_type::second);
}

void watched_inodes::erase(watched_inode& inode) noexcept {
  const auto [first, last] = table_.equal_range(inode.watch_descriptor);
  table_.erase(std::find_if(first, last, [&](auto& entry) { return &entry.second == &inode; }));
}

watched_inode* watched_inodes::find(int watch_descriptor, const program_watch& watch) noexcept {
  const auto [first, last] = table_.equal_range(watch_descriptor);
  const auto match =
      std::find_if(first, last, [&](auto& entry) { return &entry.second.watch == &watch; });
  return match != last ? &match->second : nullptr;
}

void watched_inodes::collect(int watch_descriptor, std::vector<watched_inode*>& inodes) {
  inodes.clear();
  const auto [first, last] = table_.equal_range(watch_descriptor);
  for (auto entry = first; entry != last; ++entry) inodes.push_back(&entry->second);
}

std::vector<int> watched_inodes::descriptors_of_tops() const {
  std::vector<int> descriptors;
  for (const auto& [watch_descriptor, inode] : table_) {
    if (inode.is_top()) descriptors.push_back(watch_descriptor);
  }
  return descriptors;
}

watched_inode* watched_inodes::child(watched_inode& parent, std::string_view name,
                                     order rank) noexcept {
  const auto all = named(parent, name);
  if (all.empty()) return nullptr;
  return (rank == order::oldest ? all.begin() : std::prev(all.end()))->second;
}

void watched_inodes::link_all_below(watched_inode& top) noexcept {
  watched_inode* last = &top;
  for (watched_inode* inode = &top; inode != nullptr; inode = inode->next_below) {
    for (const auto& [name, child] : inode->children) {
      last->next_below = child;
      last = child;
    }
  }
}

std::vector<watched_inode*> watched_inodes::way_to(watched_inode& inode) {
  std::vector<watched_inode*> path;
  for (watched_inode* ancestor = &inode; ancestor != nullptr; ancestor = ancestor->parent)
    path.push_back(ancestor);
  std::ranges::reverse(path);
  return path;
}

std::string watched_inodes::path_of(const watched_inode& inode, std::string_view entry) {
  std::size_t size = entry.size();
  for (const watched_inode* ancestor = &inode; !ancestor->is_top(); ancestor = ancestor->parent) {
    size += ancestor->name.size() + 1;
  }
  std::string path(size, '/');
  std::size_t begin = size;
  const auto append = [&](std::string_view name) {
    begin -= name.size();
    name.copy(path.data() + begin, name.size());
  };
  append(entry);
  for (const watched_inode* ancestor = &inode; !ancestor->is_top(); ancestor = ancestor->parent) {
    --begin;
    append(ancestor->name);
  }
  // The path of a directory itself has no slash at its end.
  if (entry.empty() && !inode.is_top()) path.pop_back();
  return path;
}

}  // namespace gyre::io::detail
