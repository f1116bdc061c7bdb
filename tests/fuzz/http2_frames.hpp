// SPDX-License-Identifier: Apache-2.0
// The parts that both fuzz targets of HTTP/2 sessions share: frames, and the body of a message.
#pragma once

#include <gyre/http/detail/http2_session.hpp>

#include <gyre/http/http2_test_support.hpp>
#include <tests/fuzz/fuzz.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace gyre::fuzz {

/// Bytes that do not end before they are asked for the tenth time.
class http2_body final : public gyre::http::detail::http2_body_source {
 public:
  offer offer_bytes(std::size_t max_size) noexcept override {
    return {.size = std::min<std::size_t>(max_size, 1000), .is_last = ++count_ > 10};
  }
  bool take_bytes(gyre::io::buffer& output, std::size_t size) override {
    output.append(std::string(size, 'x'));
    return true;
  }
  const gyre::http::detail::header_block* trailers() const noexcept override { return nullptr; }

 private:
  int count_ = 0;
};

/// Returns mostly END_STREAM and END_HEADERS, sometimes all flags.
inline std::uint8_t make_flags(decisions& choose) {
  const auto bits = static_cast<std::uint8_t>(choose.byte());
  return static_cast<std::uint8_t>(bits & (choose.below(4) == 0 ? 0xffU : 5U));
}

/// Returns a frame of the kinds 0 to 6, or any bytes for other kinds.
inline std::string make_frame(decisions& choose, std::size_t kind, std::uint32_t stream,
                              std::uint8_t flags, std::uint32_t reset_error) {
  using namespace gyre::http::test;
  switch (kind) {
    case 0: return frame(data_frame, flags, stream, std::string(choose.below(3000), 'd'));
    case 1: {
      const std::uint32_t target = choose.flip() ? 0 : stream;
      return window_update(target, static_cast<std::uint32_t>(choose.below(60'000)));
    }
    case 2: return frame(reset_frame, 0, stream, big_endian(reset_error));
    case 3: return frame(settings_frame, flags & ack, 0, choose.text(12));
    case 4: return frame(headers_frame, flags, stream, choose.text(60));
    case 5: return frame(continuation_frame, flags, stream, choose.text(60));
    case 6: {
      const auto type = static_cast<std::uint8_t>(choose.byte() % 13);
      return frame(type, flags, stream, choose.text(20));
    }
    default: return std::string(choose.text(30));
  }
}

}  // namespace gyre::fuzz
