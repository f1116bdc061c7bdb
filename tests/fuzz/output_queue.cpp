// SPDX-License-Identifier: Apache-2.0
// Fuzz target: an output queue behaves like a string, and does not move its bytes.
#include <tests/fuzz/fuzz.hpp>

#include <gyre/io/output_queue.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using gyre::fuzz::require;
using gyre::io::output_queue;

class checked_queue {
 public:
  void step(gyre::fuzz::decisions& decide) {
    switch (decide.below(8)) {
      case 0:
      case 1:
      case 2: append(decide.text(decide.below(64)), decide.below(200)); break;
      case 3: append_buffer(decide.text(decide.below(64)), decide.below(400), decide.flip()); break;
      case 4: consume(decide.below(300)); break;
      case 5: consume(decide.below(65536)); break;
      case 6: join(); break;
      default:
        if (decide.below(8) == 0) clear();
    }
    check();
  }

 private:
  static std::string repeat(std::string_view text, std::size_t times) {
    std::string all;
    while (times-- != 0) all += text;
    return all;
  }

  void append(std::string_view text, std::size_t times) {
    const std::string all = repeat(text, times);
    std::array<iovec, 1> before{};
    const std::size_t had = real_.gather(before);
    real_.append(all);
    std::array<iovec, 1> after{};
    if (had != 0) {
      require(real_.gather(after) == 1 && after[0].iov_base == before[0].iov_base);
      require(after[0].iov_len >= before[0].iov_len);
    }
    model_ += all;
  }
  void append_buffer(std::string_view text, std::size_t times, bool used) {
    gyre::io::buffer bytes;
    if (used) {
      bytes.append(std::string(5000, 'x'));
      bytes.consume(5000);
    }
    bytes.append(repeat(text, times));
    model_ += bytes.text();
    real_.append(std::move(bytes));
    require(bytes.empty());
  }
  void consume(std::size_t count) {
    count = std::min(count, model_.size());
    real_.consume(count);
    model_.erase(0, count);
  }
  void join() {
    output_queue front;
    front.append("front");
    front.append(std::move(real_));
    require(real_.empty());
    real_ = std::move(front);
    model_.insert(0, "front");
  }
  void clear() {
    real_.clear();
    model_.clear();
  }

  void check() const {
    require(real_.size() == model_.size() && real_.empty() == model_.empty());
    std::array<iovec, 64> pieces{};
    const std::size_t count = real_.gather(pieces);
    std::size_t at = 0;
    for (const iovec& piece : std::span(pieces).first(count)) {
      require(piece.iov_len != 0 && piece.iov_len <= model_.size() - at);
      const std::string_view text(static_cast<const char*>(piece.iov_base), piece.iov_len);
      require(text == std::string_view(model_).substr(at, piece.iov_len));
      at += piece.iov_len;
    }
    require(count == pieces.size() || at == model_.size());
  }

  output_queue real_;
  std::string model_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t longest = 512;
  gyre::fuzz::decisions decide(data, std::min(size, longest));
  checked_queue checked;
  while (!decide.empty()) checked.step(decide);
  return 0;
}
