// SPDX-License-Identifier: Apache-2.0
// Fuzz target: a buffer behaves like a string, within its memory and its limits.
#include <tests/fuzz/fuzz.hpp>

#include <gyre/io/buffer.hpp>

#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace {

using gyre::fuzz::require;
using gyre::io::buffer;

// A buffer and its expected contents.
class checked_buffer {
 public:
  explicit checked_buffer(gyre::io::buffer_options how) : real_(how) {}

  void step(gyre::fuzz::decisions& decide) {
    switch (decide.below(15)) {
      case 0:
      case 1: add(decide.text(decide.below(64)), 1 + decide.below(40)); break;
      case 2: add_in_front(decide.text(decide.below(64)), 1 + decide.below(20)); break;
      case 3: drop(decide.below(real_.size() + 1)); break;
      case 4: drop(real_.size()); break;
      case 5: prepare(decide.below(3000), decide.byte()); break;
      case 6: reserve(decide.below(5000)); break;
      case 7: real_.shrink_to_fit(); break;
      case 8: clear(); break;
      case 9: move(); break;
      case 10: add_own(decide.below(256), decide.below(256), decide.flip()); break;
      case 11: integers(decide.byte()); break;
      case 12: real_.swap(other_), std::swap(model_, other_model_); break;
      case 13: move_own(decide.below(real_.size() + 1), decide.below(64), decide.flip()); break;
      default: find(decide.text(decide.below(4)), decide.below(300)); break;
    }
    check();
  }

 private:
  // Applies `change` unless it would make the buffer too long.
  template <class Change>
  bool try_to(std::size_t adds, Change change) {
    const bool fits = adds <= real_.max_size() - model_.size();
    try {
      change();
      require(fits);
    } catch (const std::length_error&) {
      require(!fits);
    }
    return fits;
  }

  void add(std::string_view text, std::size_t times) {
    std::string all;
    while (times-- != 0) all += text;
    if (try_to(all.size(), [&] { real_.append(all); })) model_ += all;
  }
  void add_in_front(std::string_view text, std::size_t times) {
    std::string all;
    while (times-- != 0) all += text;
    if (try_to(all.size(), [&] { real_.prepend(all); })) model_.insert(0, all);
  }
  void add_own(std::size_t from, std::size_t count, bool in_front) {
    from = std::min(from, model_.size());
    const std::string part = model_.substr(from, count);
    const std::string_view own = real_.text().substr(from, count);
    if (in_front) {
      if (try_to(part.size(), [&] { real_.prepend(own); })) model_.insert(0, part);
    } else if (try_to(part.size(), [&] { real_.append(own); })) {
      model_ += part;
    }
  }
  // Consumes bytes, and adds some of them again.
  void move_own(std::size_t consumed, std::size_t skipped, bool in_front) {
    skipped = std::min(skipped, consumed);
    const std::span<const std::byte> own = real_.take(consumed).subspan(skipped);
    const std::string part = model_.substr(skipped, consumed - skipped);
    model_.erase(0, consumed);
    in_front ? real_.prepend(own) : real_.append(own);
    in_front ? model_.insert(0, part) : model_ += part;
  }
  void drop(std::size_t count) {
    const std::span<const std::byte> taken = real_.take(count);
    require(gyre::io::input(taken).text() == model_.substr(0, count));
    model_.erase(0, count);
  }
  void prepare(std::size_t count, std::uint8_t fill) {
    const bool done = try_to(count, [&] {
      const std::span<std::byte> room = real_.prepare(count);
      require(room.size() == count);
      if (count != 0) std::memset(room.data(), fill, count);
      real_.commit(count / 2);
    });
    if (done) model_.append(count / 2, static_cast<char>(fill));
  }
  void reserve(std::size_t count) {
    const std::size_t more = count > model_.size() ? count - model_.size() : 0;
    if (!try_to(more, [&] { real_.reserve(count); })) return;
    require(real_.tail_room() >= more);
  }
  void clear() {
    real_.clear();
    model_.clear();
  }
  void move() {
    buffer moved(std::move(real_));
    require(real_.empty() && real_.capacity() == 0 && real_.max_size() == moved.max_size());
    real_ = std::move(moved);
  }
  void integers(std::uint8_t byte) {
    const std::uint32_t number = byte * 0x01030507U;
    const bool done = try_to(6, [&] {
      real_.prepend(number);
      try {
        real_.append(static_cast<std::uint16_t>(number));
      } catch (const std::length_error&) {
        real_.consume(4);
        throw;
      }
    });
    if (!done) return;
    require(real_.read<std::uint32_t>() == number);
    require(real_.peek<std::uint16_t>(model_.size()) == static_cast<std::uint16_t>(number));
    model_ += static_cast<char>(number >> 8);
    model_ += static_cast<char>(number);
  }
  void find(std::string_view text, std::size_t from) const {
    require(real_.find(text, from) == model_.find(text, from));
    if (text.empty()) return;
    require(real_.find(static_cast<std::byte>(text[0]), from) == model_.find(text[0], from));
  }

  void check() const {
    require(real_.text() == model_);
    require(real_.size() <= real_.max_size());
    require(real_.tail_room() <= real_.capacity());
  }

  buffer real_;
  std::string model_;
  buffer other_;
  std::string other_model_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gyre::fuzz::decisions decide(data, size);
  checked_buffer checked({.prepend = static_cast<std::uint32_t>(decide.below(32)),
                          .max_size = decide.flip() ? decide.below(2000) : 1U << 20});
  while (!decide.empty()) checked.step(decide);
  return 0;
}
