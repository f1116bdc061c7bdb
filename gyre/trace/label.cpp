// SPDX-License-Identifier: Apache-2.0
#include <gyre/trace/label.hpp>

#include <gyre/base/detail/fork_handlers.hpp>

#include <mutex>
#include <new>
#include <string>
#include <unordered_set>

namespace gyre::trace {
namespace {

/// The texts of intern().
struct interned_texts {
  static constexpr std::size_t entry_bytes = 64;

  std::mutex mutex;
  std::unordered_set<std::string> texts;  // a node keeps its address
  std::size_t bytes = 0;
};

// Never destroyed, because a dump may read labels while static objects are destroyed. fork(2) locks
// the mutex meanwhile, so that the child process does not find it locked.
interned_texts& all_texts() {
  static auto& texts = *new interned_texts;
  [[maybe_unused]] static const bool is_registered =
      gyre::detail::add_fork_handlers({.before = [] { texts.mutex.lock(); },
                                       .in_parent = [] { texts.mutex.unlock(); },
                                       .in_child = [] { texts.mutex.unlock(); }});
  return texts;
}

}  // namespace

label intern(std::string_view text) noexcept {
  try {
    interned_texts& all = all_texts();
    const std::lock_guard lock(all.mutex);
    std::string key(text);
    const auto existing = all.texts.find(key);
    if (existing != all.texts.end()) return label(existing->c_str());
    const std::size_t bytes = text.size() + interned_texts::entry_bytes;
    if (bytes > max_interned_bytes - all.bytes) return "(too many names)";
    const char* const stored_text = all.texts.insert(std::move(key)).first->c_str();
    all.bytes += bytes;
    return label(stored_text);
  } catch (const std::bad_alloc&) {
    return "(no memory)";
  }
}

}  // namespace gyre::trace
