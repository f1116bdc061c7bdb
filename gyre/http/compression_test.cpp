// SPDX-License-Identifier: Apache-2.0
// Tests of compression and decompression.
#include <gyre/http/compression.hpp>

#include <gyre/http/format_error.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace compression_test {
namespace {

using gyre::http::compressor;
using gyre::http::content_coding;
using gyre::http::decompressor;
using gyre::http::format_errc;

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string text_of(const gyre::io::buffer& from) {
  return {reinterpret_cast<const char*>(from.bytes().data()), from.size()};
}

std::string packed(content_coding coding, std::string_view text) {
  gyre::io::buffer out;
  compressor pack(coding);
  pack.write(bytes(text), out);
  pack.finish(out);
  return text_of(out);
}

// Some compressible text.
std::string sample(std::size_t size) {
  std::minstd_rand random(7);
  std::string text;
  while (text.size() < size) text += std::to_string(random() % 1000) + ", ";
  return text;
}

class Compression : public testing::TestWithParam<content_coding> {};

INSTANTIATE_TEST_SUITE_P(Codings, Compression,
                         testing::Values(content_coding::identity, content_coding::gzip,
                                         content_coding::zstd, content_coding::br),
                         [](const auto& each) { return std::string(to_text(each.param)); });

TEST_P(Compression, UnpacksTheSameBytes) {
  for (const std::size_t size : {0U, 1U, 100U, 100000U, 2000000U}) {
    const std::string text = sample(size).substr(0, size);
    const std::string data = packed(GetParam(), text);
    gyre::io::buffer out;
    decompressor unpack(GetParam());
    ASSERT_FALSE(unpack.write(bytes(data), out));
    EXPECT_TRUE(unpack.is_complete());
    EXPECT_TRUE(text_of(out) == text) << size;
    EXPECT_EQ(unpack.output_size(), size);
    if (size == 100000 && GetParam() != content_coding::identity) {
      EXPECT_LT(data.size(), size / 2);
    }
  }
}

TEST_P(Compression, SizesOfChunksDoNotMatter) {
  const std::string text = sample(3000);
  std::string data;
  compressor pack(GetParam());
  std::array<std::byte, 5> small{};
  for (std::span<const std::byte> rest = bytes(text);;) {
    const auto input = rest.first(std::min<std::size_t>(rest.size(), 7));
    const auto what = input.size() == rest.size() ? compressor::operation::finish
                                                  : compressor::operation::process;
    const auto done = pack.step(input, small, what);
    data.append(reinterpret_cast<const char*>(small.data()), done.produced);
    rest = rest.subspan(done.consumed);
    if (rest.empty() && done.is_done) break;
  }
  std::string unpacked;
  decompressor unpack(GetParam());
  for (const char& each : data) {
    std::span<const std::byte> input = bytes(std::string_view(&each, 1));
    for (bool filled = true; filled || !input.empty();) {
      const auto done = unpack.step(input, small).value();
      unpacked.append(reinterpret_cast<const char*>(small.data()), done.produced);
      input = input.subspan(done.consumed);
      filled = done.produced == small.size();
    }
  }
  EXPECT_TRUE(unpack.is_complete());
  EXPECT_TRUE(unpacked == text);
}

TEST_P(Compression, FlushedBytesCanBeUnpacked) {
  gyre::io::buffer data, out;
  compressor pack(GetParam());
  decompressor unpack(GetParam());
  for (const std::string_view each : {"first", "second", ""}) {
    pack.write(bytes(each), data);
    pack.flush(data);
    ASSERT_FALSE(unpack.write(data.bytes(), out));
    EXPECT_EQ(text_of(out), each);
    data.clear();
    out.clear();
  }
}

TEST_P(Compression, OutputIsLimited) {
  const std::string data = packed(GetParam(), std::string(5000000, 'a'));
  for (const std::size_t limit : {0U, 1U, 16384U, 4999999U}) {
    gyre::io::buffer out;
    decompressor unpack(GetParam(), {.max_output = limit});
    EXPECT_EQ(unpack.write(bytes(data), out), format_errc::output_limit);
    EXPECT_LE(out.size(), limit + 1);
    EXPECT_FALSE(unpack.is_complete());
    EXPECT_EQ(unpack.write(bytes("a"), out), format_errc::output_limit);
  }
  gyre::io::buffer out;
  decompressor unpack(GetParam(), {.max_output = 5000000});
  EXPECT_FALSE(unpack.write(bytes(data), out));
  EXPECT_TRUE(unpack.is_complete());
}

TEST_P(Compression, MissingBytesAreNoticed) {
  if (GetParam() == content_coding::identity) return;
  const std::string data = packed(GetParam(), sample(500));
  for (std::size_t size = 0; size < data.size(); ++size) {
    gyre::io::buffer out;
    decompressor unpack(GetParam());
    EXPECT_FALSE(unpack.write(bytes(data).first(size), out));
    EXPECT_FALSE(unpack.is_complete()) << size;
  }
}

TEST_P(Compression, OtherDataAreRefused) {
  if (GetParam() == content_coding::identity) return;
  gyre::io::buffer out;
  decompressor unpack(GetParam());
  EXPECT_EQ(unpack.write(bytes("\xff\xff\xffno such data"), out), format_errc::bad_compression);
  EXPECT_EQ(unpack.write(bytes(packed(GetParam(), "a")), out), format_errc::bad_compression);
  decompressor behind(GetParam());
  EXPECT_EQ(behind.write(bytes(packed(GetParam(), "a") + "behind the end"), out),
            format_errc::bad_compression);
}

TEST(Compressor, GzipMayHaveSeveralMembers) {
  const std::string data =
      packed(content_coding::gzip, "first ") + packed(content_coding::gzip, "second");
  gyre::io::buffer out;
  decompressor unpack(content_coding::gzip);
  EXPECT_FALSE(unpack.write(bytes(data), out));
  EXPECT_TRUE(unpack.is_complete());
  EXPECT_EQ(text_of(out), "first second");
}

TEST(Compressor, GzipMayBePaddedWithZeros) {
  const std::string member = packed(content_coding::gzip, "a");
  const std::string zeros(1000, '\0');
  const auto unpack_in_pieces = [](std::string_view data, std::size_t size) {
    gyre::io::buffer out;
    decompressor unpack(content_coding::gzip);
    for (; !data.empty(); data.remove_prefix(std::min(size, data.size()))) {
      EXPECT_FALSE(unpack.write(bytes(data.substr(0, size)), out));
    }
    EXPECT_TRUE(unpack.is_complete());
    return std::string(text_of(out));
  };
  for (const std::size_t size : {std::size_t{1}, std::size_t{1'000'000}}) {
    EXPECT_EQ(unpack_in_pieces(member + zeros, size), "a");
    EXPECT_EQ(unpack_in_pieces(member + zeros + member + '\0', size), "aa");
  }
  gyre::io::buffer out;
  decompressor behind(content_coding::gzip);
  EXPECT_EQ(behind.write(bytes(member + '\0' + "xyz"), out), format_errc::bad_compression);
  decompressor before(content_coding::gzip);
  EXPECT_EQ(before.write(bytes('\0' + member), out), format_errc::bad_compression);
}

TEST(Compressor, BadUseIsTold) {
  EXPECT_THROW(compressor(content_coding::gzip, {.level = 10}), std::invalid_argument);
  EXPECT_THROW(compressor(content_coding::br, {.level = 12}), std::invalid_argument);
  EXPECT_THROW(compressor(content_coding::zstd, {.level = 20}), std::invalid_argument);
  compressor pack(content_coding::gzip, {.level = 9});
  gyre::io::buffer out;
  pack.finish(out);
  EXPECT_THROW(pack.finish(out), std::logic_error);
}

}  // namespace
}  // namespace compression_test
