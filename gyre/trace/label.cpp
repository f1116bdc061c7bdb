// SPDX-License-Identifier: Apache-2.0
#include <gyre/trace/label.hpp>

#include <gyre/base/detail/fork_handlers.hpp>
#include <gyre/trace/detail/intern_peer_name.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <unordered_set>

namespace gyre::trace {
namespace detail {

/// Lets a text be looked up without a std::string.
struct text_hash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept {
    return std::hash<std::string_view>()(text);
  }
};

/// The texts of intern().
struct interned_texts {
  static constexpr std::size_t entry_bytes = 64;

  // Returns the label of `text`, unless all texts together would exceed `max_bytes`. Allocates
  // nothing for a text that is stored.
  label find_or_add(std::string_view text, std::size_t max_bytes) noexcept;

  std::mutex mutex;
  // The nodes of an unordered_set keep their addresses, which labels refer to.
  std::unordered_set<std::string, text_hash, std::equal_to<>> texts;
  std::size_t bytes = 0;
};

label interned_texts::find_or_add(std::string_view text, std::size_t max_bytes) noexcept {
  try {
    const std::lock_guard lock(mutex);
    const auto match = texts.find(text);
    if (match != texts.end()) return label(match->c_str());
    const std::size_t added_bytes = text.size() + entry_bytes;
    if (added_bytes > max_bytes || bytes > max_bytes - added_bytes) return "(too many names)";
    const char* const stored_text = texts.emplace(text).first->c_str();
    bytes += added_bytes;
    return label(stored_text);
  } catch (const std::bad_alloc&) {
    return "(no memory)";
  }
}

namespace {

// The object is never destroyed, because a dump may read labels while static objects are destroyed.
// fork(2) locks the mutex meanwhile, so that the child process does not find it locked.
interned_texts& all_texts() {
  static auto& texts = *new interned_texts;
  [[maybe_unused]] static const bool is_registered =
      gyre::detail::add_fork_handlers({.before = [] { texts.mutex.lock(); },
                                       .in_parent = [] { texts.mutex.unlock(); },
                                       .in_child = [] { texts.mutex.unlock(); }});
  return texts;
}

// The text with a blank for each sequence of blanks, line ends and control characters, and "..."
// for what exceeds max_peer_name.
class one_line {
 public:
  explicit one_line(std::string_view text) noexcept {
    bool is_gap = false;
    for (const char letter : text) {
      if (static_cast<unsigned char>(letter) <= ' ') {
        is_gap = size_ != 0;
        continue;
      }
      if (is_gap) line_[size_++] = ' ';
      is_gap = false;
      line_[size_++] = letter;
      if (size_ > max_peer_name) break;
    }
    if (size_ > max_peer_name) shorten();
  }
  std::string_view text() const noexcept { return {line_.data(), size_}; }

 private:
  static constexpr std::string_view ending = "...";

  void shorten() noexcept {
    size_ = max_peer_name;
    // The line ends before a character of UTF-8, whose further bytes are 10xxxxxx.
    while (size_ > 0 && (static_cast<unsigned char>(line_[size_]) & 0xc0U) == 0x80U) --size_;
    std::ranges::copy(ending, line_.data() + size_);
    size_ += ending.size();
  }

  // A blank and a letter may follow the longest line.
  std::array<char, max_peer_name + ending.size()> line_;  // NOLINT(*-member-init): see size_
  std::size_t size_ = 0;
};

}  // namespace

label intern_peer_name(std::string_view text) noexcept {
  return all_texts().find_or_add(one_line(text).text(), max_interned_bytes / 2);
}

}  // namespace detail

label intern(std::string_view text) noexcept {
  return detail::all_texts().find_or_add(text, max_interned_bytes);
}

}  // namespace gyre::trace
