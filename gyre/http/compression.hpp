// SPDX-License-Identifier: Apache-2.0
// compressor, decompressor: streams of compressed bytes: gzip by zlib, Brotli and Zstandard.
//
//     gyre::http::compressor pack(gyre::http::content_coding::gzip);
//     pack.write(body, packed);
//     pack.finish(packed);
//
//     gyre::http::decompressor unpack(coding, {.max_output = 1 << 20});
//     if (auto error = unpack.write(packed.bytes(), body)) co_return bad_request(error);
//     if (!unpack.is_complete()) co_return bad_request(format_errc::incomplete);
#pragma once

#include <gyre/http/content_coding.hpp>
#include <gyre/io/buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <system_error>

namespace gyre::http {

namespace detail {
class encoder;
class decoder;
}  // namespace detail

/// The part of the input that one step took, and of the output that it made.
struct compression_step {
  std::size_t consumed = 0;
  std::size_t produced = 0;
  /// compressor: all input is in the output, as far as the operation asks. decompressor: the data
  /// ended with the consumed input.
  bool is_done = false;
};

/// Options of a compressor.
struct compressor_options {
  /// From 1 to 9 for gzip, 0 to 11 for br, 1 to 19 for zstd; higher ones take longer and more
  /// memory. None: 6, 4 and 3, which are fast enough for bodies that are made for each request.
  std::optional<int> level = {};
};

/// Compresses one body; content_coding::identity copies it.
///
/// Thread-safety: none; may be handed from thread to thread.
/// Errors: std::bad_alloc, std::invalid_argument for a level that the coding has not,
/// std::logic_error after finish().
/// Complexity: holds some 270 KiB for gzip, and 1 to 3 MiB for br and zstd at the default levels.
class compressor {
 public:
  enum class operation : std::uint8_t {
    process,  ///< output may be held back
    flush,    ///< the reader shall be able to unpack all input so far
    finish,   ///< the body ends
  };

  explicit compressor(content_coding coding, compressor_options options = {});
  compressor(compressor&& other) noexcept;
  compressor& operator=(compressor&& other) noexcept;
  ~compressor();

  /// Compresses into memory of fixed size. Repeat a step with the rest of the input until it is
  /// done.
  compression_step step(std::span<const std::byte> input, std::span<std::byte> output,
                        operation action);

  /// Compresses all of the input, and adds the output that there is already.
  void write(std::span<const std::byte> input, io::buffer& output);
  /// Adds all output that is held back, so that the reader can unpack all input so far.
  void flush(io::buffer& output);
  /// Adds the rest and the end.
  void finish(io::buffer& output);

 private:
  void run(std::span<const std::byte> input, io::buffer& output, operation action);

  std::unique_ptr<detail::encoder> encoder_;
  bool finished_ = false;
};

/// Options of a decompressor.
struct decompressor_options {
  /// A body that unpacks to more bytes fails: a few kilobytes can unpack to gigabytes.
  std::uint64_t max_output = std::uint64_t{64} * 1024 * 1024;
};

/// Unpacks one body; content_coding::identity copies it. One of gzip may have several members, and
/// zero bytes after them, which pad it.
///
/// Thread-safety: none; may be handed from thread to thread.
/// Errors: format_errc::bad_compression, output_limit; the next call returns the error again.
/// Throws std::bad_alloc.
/// Complexity: holds some 40 KiB for gzip, up to 16 MiB for br, and 8 MiB for zstd (RFC 9659), as
/// the data ask for.
class decompressor {
 public:
  explicit decompressor(content_coding coding, decompressor_options options = {});
  decompressor(decompressor&& other) noexcept;
  decompressor& operator=(decompressor&& other) noexcept;
  ~decompressor();

  /// Unpacks into memory of fixed size, so that memory stays bounded whatever the data unpack to.
  /// Repeat it with the rest of the input, and an empty rest, while it fills the output.
  std::expected<compression_step, std::error_code> step(std::span<const std::byte> input,
                                                        std::span<std::byte> output);

  /// Unpacks all of the input; `output` grows by at most max_output in all.
  [[nodiscard]] std::error_code write(std::span<const std::byte> input, io::buffer& output);

  /// Whether the input so far is a whole body. If it is not at the end of the input, data are
  /// missing: format_errc::incomplete. Without any input, only identity is complete.
  [[nodiscard]] bool is_complete() const noexcept;
  /// Bytes unpacked so far.
  [[nodiscard]] std::uint64_t output_size() const noexcept { return produced_; }

 private:
  std::unique_ptr<detail::decoder> decoder_;
  std::uint64_t max_output_;
  std::uint64_t produced_ = 0;
  std::error_code error_;
};

}  // namespace gyre::http
