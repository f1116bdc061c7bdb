// SPDX-License-Identifier: Apache-2.0
#include <gyre/trace/label.hpp>

#include <gyre/base/detail/fork_handlers.hpp>
#include <gyre/trace/detail/intern_peer_name.hpp>

#include <mutex>
#include <new>
#include <string>
#include <unordered_set>
#include <utility>

namespace gyre::trace {
namespace detail {

/// The texts of intern().
struct interned_texts {
  static constexpr std::size_t entry_bytes = 64;

  // Returns the label of `text`, unless all texts together would exceed `max_bytes`.
  label find_or_add(std::string_view text, std::size_t max_bytes) noexcept;

  std::mutex mutex;
  std::unordered_set<std::string> texts;  // a node keeps its address
  std::size_t bytes = 0;
};

label interned_texts::find_or_add(std::string_view text, std::size_t max_bytes) noexcept {
  try {
    std::string key(text);
    const std::lock_guard lock(mutex);
    const auto existing = texts.find(key);
    if (existing != texts.end()) return label(existing->c_str());
    const std::size_t added_bytes = text.size() + entry_bytes;
    if (added_bytes > max_bytes || bytes > max_bytes - added_bytes) return "(too many names)";
    const char* const stored_text = texts.insert(std::move(key)).first->c_str();
    bytes += added_bytes;
    return label(stored_text);
  } catch (const std::bad_alloc&) {
    return "(no memory)";
  }
}

namespace {

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

// Returns the text with a blank for each sequence of blanks, line ends and control characters, and
// "..." for what exceeds max_peer_name.
std::string one_line(std::string_view text) {
  std::string line;
  bool is_gap = false;
  for (const char letter : text) {
    if (static_cast<unsigned char>(letter) <= ' ') {
      is_gap = !line.empty();
      continue;
    }
    if (is_gap) line += ' ';
    is_gap = false;
    line += letter;
    if (line.size() <= max_peer_name) continue;
    // Ends before a character of UTF-8, whose further bytes are 10xxxxxx.
    std::size_t size = max_peer_name;
    while (size > 0 && (static_cast<unsigned char>(line[size]) & 0xc0U) == 0x80U) --size;
    line.resize(size);
    return line += "...";
  }
  return line;
}

}  // namespace

label intern_peer_name(std::string_view text) noexcept try {
  return all_texts().find_or_add(one_line(text), max_interned_bytes / 2);
} catch (const std::bad_alloc&) {
  return "(no memory)";
}

}  // namespace detail

label intern(std::string_view text) noexcept {
  return detail::all_texts().find_or_add(text, max_interned_bytes);
}

}  // namespace gyre::trace
