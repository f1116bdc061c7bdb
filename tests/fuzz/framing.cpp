// SPDX-License-Identifier: Apache-2.0
// Fuzz target: framing. However a stream is cut into pieces, it gives the frames of a reference
// decoder that reads the whole stream; and encoded frames decode to themselves.
#include <tests/fuzz/fuzz.hpp>

#include <gyre/io/error.hpp>
#include <gyre/net/framing.hpp>

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace {

using gyre::fuzz::decisions;
using gyre::fuzz::require;
using gyre::net::decoded_frame;

struct decoded {
  std::vector<std::string> frames;
  std::error_code error;
  std::string rest;  // bytes not consumed
  bool operator==(const decoded&) const = default;
};

// ---- reference decoders of whole streams

decoded plain(const gyre::net::length_prefix_options& how, std::string_view stream) {
  decoded all;
  for (;;) {
    if (stream.size() < how.width) break;
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < how.width; ++i) {
      const std::size_t at = how.order == std::endian::big ? i : how.width - 1 - i;
      length = length << 8 | static_cast<std::uint8_t>(stream[at]);
    }
    if (how.counts_itself && length < how.width) {
      all.error = gyre::io::errc::bad_frame_length;
      break;
    }
    if (how.counts_itself) length -= how.width;
    if (length > how.maximum) {
      all.error = gyre::io::errc::frame_too_long;
      break;
    }
    if (length > stream.size() - how.width) break;
    all.frames.emplace_back(stream.substr(how.width, static_cast<std::size_t>(length)));
    stream.remove_prefix(how.width + static_cast<std::size_t>(length));
  }
  all.rest = stream;
  return all;
}

decoded plain(std::string_view delimiter, std::size_t maximum, std::string_view stream) {
  decoded all;
  for (;;) {
    const std::size_t end = stream.find(delimiter);
    const bool found = end != std::string_view::npos;
    if (found ? end > maximum : stream.size() >= maximum + delimiter.size()) {
      all.error = gyre::io::errc::frame_too_long;
      break;
    }
    if (!found) break;
    all.frames.emplace_back(stream.substr(0, end));
    stream.remove_prefix(end + delimiter.size());
  }
  all.rest = stream;
  return all;
}

decoded plain(std::size_t size, std::string_view stream) {
  decoded all;
  for (; stream.size() >= size; stream.remove_prefix(size)) {
    all.frames.emplace_back(stream.substr(0, size));
  }
  all.rest = stream;
  return all;
}

// ---- decoders of pieces

template <class Framing>
decoded in_pieces(Framing framing, std::string_view stream, decisions& decide) {
  decoded all;
  gyre::io::buffer buffer;
  bool failed = false;
  while (!stream.empty()) {
    const std::size_t count = std::min(stream.size(), 1 + decide.below(32));
    buffer.append(stream.substr(0, count));
    stream.remove_prefix(count);
    all.error = gyre::net::for_each_frame(framing, buffer, [&](std::span<const std::byte> frame) {
      require(!failed);  // an error is the end of the stream
      all.frames.emplace_back(gyre::io::input(frame).text());
    });
    require(!failed || all.error);
    failed = static_cast<bool>(all.error);
  }
  all.rest = buffer.text();
  return all;
}

template <class Framing>
void check_round_trip(Framing framing, decisions& decide) {
  std::vector<std::string> sent;
  gyre::io::buffer stream;
  for (std::size_t count = decide.below(8); count != 0; --count) {
    const std::string_view payload = decide.text(decide.below(24));
    const std::size_t before = stream.size();
    try {
      framing.encode(stream, payload);
      sent.emplace_back(payload);
    } catch (const std::system_error&) {
      require(stream.size() == before);
    }
  }
  const decoded received = in_pieces(framing, stream.text(), decide);
  require(received == decoded{sent, {}, {}});
}

// Random bytes with occasional delimiters that a decoder looks for.
std::string make_stream(std::string_view sought, decisions& decide) {
  std::string stream;
  while (!decide.empty() && decide.below(16) != 0) {
    if (decide.flip()) stream += sought.substr(0, 1 + decide.below(sought.size()));
    stream += decide.text(decide.below(16));
  }
  return stream;
}

void check_length_prefixed(decisions& decide) {
  const gyre::net::length_prefix_options how{
      .width = std::size_t{1} << decide.below(4),
      .order = decide.flip() ? std::endian::big : std::endian::little,
      .counts_itself = decide.flip(),
      .maximum = decide.below(24)};
  const gyre::net::length_prefixed framing(how);
  gyre::io::buffer ten;
  gyre::net::length_prefixed({how.width, how.order, how.counts_itself}).encode(ten, "0123456789");
  const std::string stream = make_stream(ten.text(), decide);
  require(in_pieces(framing, stream, decide) == plain(how, stream));
  check_round_trip(framing, decide);
}

void check_delimited(decisions& decide) {
  std::string delimiter(decide.text(1 + decide.below(4)));
  if (delimiter.empty()) delimiter = "\r\n";
  const gyre::net::delimited framing(delimiter, decide.below(40));
  const std::string stream = make_stream(delimiter, decide);
  require(in_pieces(framing, stream, decide) == plain(delimiter, framing.maximum(), stream));
  check_round_trip(framing, decide);
}

void check_fixed(decisions& decide) {
  const gyre::net::fixed framing(1 + decide.below(20));
  const std::string stream = make_stream("x", decide);
  require(in_pieces(framing, stream, decide) == plain(framing.size(), stream));
  check_round_trip(framing, decide);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decisions decide(data, size);
  switch (decide.below(3)) {
    case 0: check_length_prefixed(decide); break;
    case 1: check_delimited(decide); break;
    default: check_fixed(decide);
  }
  return 0;
}
