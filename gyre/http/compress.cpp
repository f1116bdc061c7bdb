// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/compress.hpp>

#include <gyre/base/atomic.hpp>
#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/http/compression.hpp>
#include <gyre/http/detail/body_access.hpp>
#include <gyre/http/detail/body_length_error.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/field_lookup.hpp>
#include <gyre/http/detail/vary.hpp>
#include <gyre/http/media_type.hpp>
#include <gyre/io/blocking_pool.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/schedule.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace gyre::http {
namespace {

using detail::add_vary;
using detail::body_access;
using detail::equals_ignoring_case;
using detail::has_word;

std::string join_values(field_list fields, std::string_view name) {
  std::string text;
  for (const field& field : fields) {
    if (!equals_ignoring_case(field.name, name)) continue;
    if (!text.empty()) text += ", ";
    text += field.value;
  }
  return text;
}

// A permit to compress one stream; the number of streams compressed at a time is limited.
class stream_permit {
 public:
  using counter = gyre::detail::atomic<std::size_t>;

  // relaxed: the counter guards no other data.
  static std::optional<stream_permit> acquire(const std::shared_ptr<counter>& streams,
                                              std::size_t limit) {
    if (streams->fetch_add(1, std::memory_order_relaxed) < limit) return stream_permit(streams);
    streams->fetch_sub(1, std::memory_order_relaxed);
    return std::nullopt;
  }
  stream_permit(stream_permit&&) noexcept = default;
  stream_permit& operator=(stream_permit&&) = delete;
  ~stream_permit() {
    if (streams_) streams_->fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  explicit stream_permit(std::shared_ptr<counter> streams) noexcept
      : streams_(std::move(streams)) {}

  std::shared_ptr<counter> streams_;
};

struct settings {
  compress_options options;
  std::shared_ptr<stream_permit::counter> streams = std::make_shared<stream_permit::counter>(0);
};

// Compresses each write and sends the result at once. Checks the length that the response announced
// for the plain body, because the compressed body announces none.
class compressing_filter final : public detail::byte_sink {
 public:
  compressing_filter(body_writer& output, compressor& encoder,
                     std::optional<std::uint64_t> length) noexcept
      : output_(output),
        encoder_(encoder),
        missing_bytes_(length),
        target_(body_access::replace_sink(output, *this)) {}
  compressing_filter(const compressing_filter&) = delete;
  compressing_filter& operator=(const compressing_filter&) = delete;
  ~compressing_filter() override { body_access::replace_sink(output_, target_); }

  task<> write(std::span<const std::byte> bytes) override {
    if (bytes.empty()) co_return;
    if (!packed_output_.empty()) {
      throw std::system_error(make_error_code(io::errc::busy), "http::body_writer::write");
    }
    if (missing_bytes_) {
      if (bytes.size() > *missing_bytes_) throw detail::too_long_body();
      *missing_bytes_ -= bytes.size();
    }
    encoder_.write(bytes, packed_output_);
    encoder_.flush(packed_output_);
    co_await send();
  }
  task<> finish() {
    if (missing_bytes_.value_or(0) != 0) throw detail::too_short_body(*missing_bytes_);
    encoder_.finish(packed_output_);
    co_await send();
  }

 private:
  task<> send() {
    // The bytes are queued even if the wait is cancelled, so they must not be sent again.
    struct clear_on_exit {
      io::buffer& output_buffer;
      ~clear_on_exit() { output_buffer.clear(); }
    } const guard{packed_output_};
    task<> write_task = target_.write(packed_output_.bytes());
    co_await std::move(write_task);
  }

  body_writer& output_;
  compressor& encoder_;
  std::optional<std::uint64_t> missing_bytes_;  // what is missing of the announced length
  detail::byte_sink& target_;
  io::buffer packed_output_{{.prepend = 0}};
};

task<> write_compressed(body_writer& output, compressor& encoder,
                        std::optional<std::uint64_t> length,
                        move_only_function<task<>(body_writer&)>& write) {
  compressing_filter filter(output, encoder, length);
  task<> write_task = write(output);
  co_await std::move(write_task);
  co_await filter.finish();
}

bool may_be_compressed(const response& result) noexcept {
  const http::fields& fields = result.fields();
  const auto type = fields.get("Content-Type");
  if (!type || !is_compressible(*type) || type->starts_with("text/event-stream")) return false;
  const auto has_field = [&](std::string_view name) { return fields.contains(name); };
  return result.status() != status::partial_content && !has_field("Content-Encoding") &&
         !has_field("Content-Range") && !has_field("Content-Digest") && !has_field("Content-MD5") &&
         !has_field("Digest") && !has_word(fields, "Cache-Control", "no-transform");
}

void weaken_tag(response& result) {
  const auto tag = result.fields().get("ETag");
  if (tag && tag->starts_with('"')) result.set("ETag", "W/" + std::string(*tag));
}

void set_coding(response& result, content_coding coding) {
  result.set("Content-Encoding", to_text(coding));
  weaken_tag(result);
}

std::optional<content_coding> coding_for(const request& request, const compress_options& options) {
  const std::string accept_value = join_values(request.fields(), "Accept-Encoding");
  const auto coding = negotiate_coding(accept_value, options.codings);
  return coding == content_coding::identity ? std::nullopt : coding;
}

// Adjusts a response to HEAD whose handler has set the length of the body that GET would return. If
// that body may be compressed, its length is unknown, so Content-Length is removed (RFC 9110, 8.6).
void adapt_head(response& result, const request& request, const compress_options& options) {
  const auto length = result.fields().get("Content-Length");
  const auto size = length ? gyre::detail::parse_decimal<std::uint64_t>(*length) : std::nullopt;
  if (!size || *size < options.min_size) return;
  add_vary(result, "Accept-Encoding");
  if (!coding_for(request, options)) return;
  result.fields().erase("Content-Length");
  weaken_tag(result);
}

task<> compress_body(compressor& encoder, std::string_view body, io::buffer& output_buffer) {
  encoder.write(std::as_bytes(std::span(body)), output_buffer);
  encoder.finish(output_buffer);
  co_return;
}

task<response> compress_response(const settings& setup, request& request, next_handler next) {
  task<response> rest = next(request);
  response result = co_await std::move(rest);
  // A 304 must have the Vary of the corresponding 200 (RFC 9110, 15.4.5).
  if (result.status() == status::not_modified) add_vary(result, "Accept-Encoding");
  if (!may_be_compressed(result)) co_return result;
  const bool is_stream = body_access::is_stream(result);
  const bool is_whole = body_access::is_whole(result);
  const std::string_view body = result.body();
  if (is_whole && body.empty() && request.method() == method::head) {
    adapt_head(result, request, setup.options);
    co_return result;
  }
  if (is_stream) {
    const auto length = body_access::length(result);
    if (length && *length < setup.options.min_size) co_return result;
  } else if (!is_whole || body.empty() || body.size() < setup.options.min_size) {
    co_return result;
  }
  add_vary(result, "Accept-Encoding");
  const auto coding = coding_for(request, setup.options);
  if (!coding) co_return result;

  if (is_stream) {
    auto permit = stream_permit::acquire(setup.streams, setup.options.max_streams);
    if (!permit) co_return result;
    auto& write = body_access::writing_function(result);
    const auto length = std::exchange(body_access::length(result), std::nullopt);
    write = [write = std::move(write), encoder = compressor(*coding), permit = std::move(*permit),
             length](body_writer& output) mutable {
      return write_compressed(output, encoder, length, write);
    };
    set_coding(result, *coding);
    co_return result;
  }

  compressor encoder(*coding);
  io::buffer output_buffer({.prepend = 0});
  task<> body_task = compress_body(encoder, body, output_buffer);
  if (body.size() > setup.options.offload_size) {
    auto compress_task = gyre::on(io::blocking_pool(), std::move(body_task));
    co_await std::move(compress_task);
  } else {
    co_await std::move(body_task);
  }
  if (output_buffer.size() >= body.size()) co_return result;
  result.set_body(std::string(output_buffer.text()));
  set_coding(result, *coding);
  co_return result;
}

}  // namespace

middleware compress(compress_options options) {
  if (std::ranges::find(options.codings, content_coding::identity) != options.codings.end()) {
    throw std::invalid_argument("http::compress: identity is no coding to compress by");
  }
  return [setup = settings{.options = std::move(options)}](request& request, next_handler next) {
    return compress_response(setup, request, std::move(next));
  };
}

}  // namespace gyre::http
