// SPDX-License-Identifier: Apache-2.0
// compressor, decompressor: streaming compression of bodies with gzip (zlib), Brotli and Zstandard.
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

/// The result of one step: how much input was consumed and how much output was produced.
struct compression_step {
  std::size_t consumed = 0;
  std::size_t produced = 0;
  /// compressor: whether the operation is finished for all of the input. decompressor: whether the
  /// compressed data ended with the consumed input.
  bool is_done = false;
};

/// Options of a compressor.
struct compressor_options {
  /// The compression level: 1 to 9 for gzip, 0 to 11 for br, 1 to 19 for zstd; higher levels need
  /// more time and memory. Defaults: 6, 4 and 3, fast enough to compress bodies on each request.
  std::optional<int> level = {};
};

/// Compresses one body; content_coding::identity copies it.
///
/// Thread-safety: none; may be handed from thread to thread.
/// Errors: std::bad_alloc; std::invalid_argument for a level that the coding does not support;
/// std::logic_error for a call after finish().
/// Complexity: holds some 270 KiB for gzip, and 1 to 3 MiB for br and zstd at the default levels.
class compressor {
 public:
  /// The work of a call of compress().
  enum class operation : std::uint8_t {
    process,  ///< compresses; may buffer output
    flush,    ///< writes all buffered output, so that the reader can unpack all input so far
    finish,   ///< ends the body
  };

  explicit compressor(content_coding coding, compressor_options options = {});
  compressor(compressor&& other) noexcept;
  compressor& operator=(compressor&& other) noexcept;
  ~compressor();

  /// Compresses into the fixed memory `output`. Repeat the step with the rest of the input until
  /// is_done is true.
  compression_step step(std::span<const std::byte> input, std::span<std::byte> output,
                        operation action);

  /// Compresses all of `input` and appends the result to `output`.
  void write(std::span<const std::byte> input, io::buffer& output);
  /// Appends all buffered output, so that the reader can unpack all input so far.
  void flush(io::buffer& output);
  /// Appends the buffered output and the end of the body.
  void finish(io::buffer& output);

 private:
  void run(std::span<const std::byte> input, io::buffer& output, operation action);

  std::unique_ptr<detail::encoder> encoder_;
  bool is_finished_ = false;
};

/// Options of a decompressor.
struct decompressor_options {
  /// Maximum size of the unpacked body, in bytes; a larger body fails. A few kilobytes can unpack
  /// to gigabytes.
  std::uint64_t max_output = std::uint64_t{64} * 1024 * 1024;
};

/// Unpacks one body; content_coding::identity copies it. A gzip body may have several members, and
/// zero bytes after them as padding.
///
/// Thread-safety: none; may be handed from thread to thread.
/// Errors: format_errc::bad_compression, output_limit; later calls return the same error. Throws
/// std::bad_alloc.
/// Complexity: holds some 40 KiB for gzip, up to 16 MiB for br and up to 8 MiB for zstd (RFC 9659),
/// depending on the data.
class decompressor {
 public:
  explicit decompressor(content_coding coding, decompressor_options options = {});
  decompressor(decompressor&& other) noexcept;
  decompressor& operator=(decompressor&& other) noexcept;
  ~decompressor();

  /// Unpacks into the fixed memory `output`, so that the memory is bounded for any data. While a
  /// step fills the output, repeat it with the rest of the input, even if that rest is empty.
  std::expected<compression_step, std::error_code> step(std::span<const std::byte> input,
                                                        std::span<std::byte> output);

  /// Unpacks all of `input` and appends the result to `output`, at most max_output bytes over all
  /// calls.
  [[nodiscard]] std::error_code write(std::span<const std::byte> input, io::buffer& output);

  /// Whether the input so far is a whole body. If false at the end of the input, data are missing
  /// (format_errc::incomplete). Without any input, only content_coding::identity is complete.
  [[nodiscard]] bool is_complete() const noexcept;
  /// The number of bytes unpacked so far.
  [[nodiscard]] std::uint64_t output_size() const noexcept { return produced_bytes_; }

 private:
  std::unique_ptr<detail::decoder> decoder_;
  std::uint64_t max_output_;
  std::uint64_t produced_bytes_ = 0;
  std::error_code error_;
};

}  // namespace gyre::http
