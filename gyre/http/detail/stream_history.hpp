// SPDX-License-Identifier: Apache-2.0
// stream_history: the newest streams that a client has begun, and those on which it will send no
// more, after their state is gone.
#pragma once

#include <cstdint>

namespace gyre::http::detail {

/// Remembers the 64 highest identifiers that a client can have used. nghttp2 forgets closed
/// streams, but RFC 9113 (5.1) demands errors for some frames on them.
class stream_history {
 public:
  /// Called when the client begins a stream.
  void begin(std::uint32_t stream) noexcept {
    if (stream <= highest_stream_) return;
    const std::uint32_t distance = (stream - highest_stream_ + 1) / 2;
    begun_streams_ = distance < 64 ? begun_streams_ << distance : 0;
    finished_streams_ = distance < 64 ? finished_streams_ << distance : 0;
    highest_stream_ = stream;
    begun_streams_ |= 1;
  }
  /// Called when the client has ended or reset a stream.
  void finish(std::uint32_t stream) noexcept { finished_streams_ |= bit_of(stream); }

  /// Whether the client has skipped the stream, which it must not begin any more.
  bool was_skipped(std::uint32_t stream) const noexcept {
    const std::uint64_t bit = bit_of(stream);
    return bit != 0 && (begun_streams_ & bit) == 0;
  }
  /// Whether the client must not send more on the stream.
  bool is_finished(std::uint32_t stream) const noexcept {
    return (finished_streams_ & bit_of(stream)) != 0;
  }

 private:
  // Returns the stream's bit; zero for a stream that is not among the newest.
  std::uint64_t bit_of(std::uint32_t stream) const noexcept {
    if (stream > highest_stream_ || stream % 2 == 0) return 0;
    const std::uint32_t distance = (highest_stream_ - stream) / 2;
    return distance < 64 ? std::uint64_t{1} << distance : 0;
  }

  std::uint64_t begun_streams_ = 0;
  std::uint64_t finished_streams_ = 0;
  std::uint32_t highest_stream_ = 0;
};

}  // namespace gyre::http::detail
