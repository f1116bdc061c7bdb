// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/compression.hpp>

#include <gyre/http/detail/codec.hpp>
#include <gyre/http/format_error.hpp>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace gyre::http {
namespace detail {
namespace {

constexpr std::size_t step_size = std::size_t{16} * 1024;

compression_step copy(std::span<const std::byte> input, std::span<std::byte> output) {
  const std::size_t size = std::min(input.size(), output.size());
  if (size != 0) std::memcpy(output.data(), input.data(), size);
  return {.consumed = size, .produced = size, .is_done = size == input.size()};
}

class identity_encoder final : public encoder {
 public:
  compression_step step(std::span<const std::byte> input, std::span<std::byte> output,
                        compressor::operation /*action*/) override {
    return copy(input, output);
  }
};

class identity_decoder final : public decoder {
 public:
  std::optional<compression_step> step(std::span<const std::byte> input,
                                       std::span<std::byte> output) override {
    return copy(input, output);
  }
  bool is_complete() const noexcept override { return true; }
};

std::unique_ptr<encoder> make_encoder(content_coding coding, std::optional<int> level) {
  switch (coding) {
    case content_coding::identity: break;
    case content_coding::gzip: return make_gzip_encoder(level);
    case content_coding::zstd: return make_zstd_encoder(level);
    case content_coding::br: return make_brotli_encoder(level);
  }
  return std::make_unique<identity_encoder>();
}

std::unique_ptr<decoder> make_decoder(content_coding coding) {
  switch (coding) {
    case content_coding::identity: break;
    case content_coding::gzip: return make_gzip_decoder();
    case content_coding::zstd: return make_zstd_decoder();
    case content_coding::br: return make_brotli_decoder();
  }
  return std::make_unique<identity_decoder>();
}

}  // namespace

int level_between(std::optional<int> level, int min_level, int max_level, int default_level) {
  const int value = level.value_or(default_level);
  if (value < min_level || value > max_level) {
    throw std::invalid_argument("gyre::http::compressor: the level is " + std::to_string(value) +
                                ", not from " + std::to_string(min_level) + " to " +
                                std::to_string(max_level));
  }
  return value;
}

}  // namespace detail

compressor::compressor(content_coding coding, compressor_options options)
    : encoder_(detail::make_encoder(coding, options.level)) {}
compressor::compressor(compressor&& other) noexcept = default;
compressor& compressor::operator=(compressor&& other) noexcept = default;
compressor::~compressor() = default;

compression_step compressor::step(std::span<const std::byte> input, std::span<std::byte> output,
                                  operation action) {
  if (is_finished_) throw std::logic_error("gyre::http::compressor: used after finish()");
  if (output.empty()) return {};
  const compression_step result = encoder_->step(input, output, action);
  is_finished_ = action == operation::finish && result.is_done;
  return result;
}

void compressor::run(std::span<const std::byte> input, io::buffer& output, operation action) {
  for (compression_step result; !result.is_done;) {
    result = step(input, output.prepare(detail::step_size), action);
    output.commit(result.produced);
    input = input.subspan(result.consumed);
  }
}

void compressor::write(std::span<const std::byte> input, io::buffer& output) {
  run(input, output, operation::process);
}
void compressor::flush(io::buffer& output) { run({}, output, operation::flush); }
void compressor::finish(io::buffer& output) { run({}, output, operation::finish); }

decompressor::decompressor(content_coding coding, decompressor_options options)
    : decoder_(detail::make_decoder(coding)), max_output_(options.max_output) {}
decompressor::decompressor(decompressor&& other) noexcept = default;
decompressor& decompressor::operator=(decompressor&& other) noexcept = default;
decompressor::~decompressor() = default;

std::expected<compression_step, std::error_code> decompressor::step(
    std::span<const std::byte> input, std::span<std::byte> output) {
  if (error_) return std::unexpected(error_);
  if (output.empty()) return compression_step();
  const auto result = decoder_->step(input, output);
  if (!result) {
    error_ = format_errc::bad_compression;
  } else {
    produced_bytes_ += result->produced;
    if (produced_bytes_ > max_output_) error_ = format_errc::output_limit;
  }
  if (error_) return std::unexpected(error_);
  return *result;
}

std::error_code decompressor::write(std::span<const std::byte> input, io::buffer& output) {
  if (error_) return error_;
  for (;;) {
    // The budget exceeds the limit by one byte, which detects data beyond the limit.
    const std::uint64_t budget = max_output_ - std::min(max_output_, produced_bytes_);
    const std::size_t size =
        budget < detail::step_size ? static_cast<std::size_t>(budget) + 1 : detail::step_size;
    const auto result = step(input, output.prepare(size).first(size));
    if (!result) return result.error();
    output.commit(result->produced);
    input = input.subspan(result->consumed);
    if (input.empty() && result->produced < size) return {};
    if (result->consumed == 0 && result->produced == 0 && !result->is_done) {
      return error_ = format_errc::bad_compression;
    }
  }
}

bool decompressor::is_complete() const noexcept { return !error_ && decoder_->is_complete(); }

}  // namespace gyre::http
