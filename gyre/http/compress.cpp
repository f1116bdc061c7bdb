// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/compress.hpp>

#include <gyre/base/atomic.hpp>
#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/http/compression.hpp>
#include <gyre/http/detail/body_filter.hpp>
#include <gyre/http/detail/characters.hpp>
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

using detail::body_access;
using detail::equals_ignoring_case;

// Whether one of the fields of that name, a list, has the word.
template <class Fields>
bool has_word(const Fields& fields, std::string_view name, std::string_view word) noexcept {
  for (const field& each : fields) {
    if (equals_ignoring_case(each.name, name) && detail::list_has_word(each.value, word)) {
      return true;
    }
  }
  return false;
}

std::string joined(field_list fields, std::string_view name) {
  std::string text;
  for (const field& each : fields) {
    if (!equals_ignoring_case(each.name, name)) continue;
    if (!text.empty()) text += ", ";
    text += each.value;
  }
  return text;
}

// One of the streams that are compressed.
class stream_permit {
 public:
  using counter = gyre::detail::atomic<std::size_t>;

  // relaxed: a count, which guards nothing.
  static std::optional<stream_permit> acquire(const std::shared_ptr<counter>& used,
                                              std::size_t most) {
    if (used->fetch_add(1, std::memory_order_relaxed) < most) return stream_permit(used);
    used->fetch_sub(1, std::memory_order_relaxed);
    return std::nullopt;
  }
  stream_permit(stream_permit&&) noexcept = default;
  stream_permit& operator=(stream_permit&&) = delete;
  ~stream_permit() {
    if (used_) used_->fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  explicit stream_permit(std::shared_ptr<counter> used) noexcept : used_(std::move(used)) {}

  std::shared_ptr<counter> used_;
};

struct settings {
  compress_options options;
  std::shared_ptr<stream_permit::counter> streams = std::make_shared<stream_permit::counter>(0);
};

// Compresses each write, and sends it.
class compressing_filter final : public detail::body_filter {
 public:
  compressing_filter(body_writer& out, compressor& packer) noexcept : out_(out), packer_(packer) {
    body_access::set_filter(out_, this);
  }
  compressing_filter(const compressing_filter&) = delete;
  compressing_filter& operator=(const compressing_filter&) = delete;
  ~compressing_filter() { body_access::set_filter(out_, nullptr); }

  task<> write(std::span<const std::byte> bytes) override {
    if (bytes.empty()) co_return;
    if (!packed_.empty()) {
      throw std::system_error(make_error_code(io::errc::busy), "http::body_writer::write");
    }
    packer_.write(bytes, packed_);
    packer_.flush(packed_);
    co_await send();
  }
  task<> finish() {
    packer_.finish(packed_);
    co_await send();
  }

 private:
  task<> send() {
    // Also if the wait is given up: the bytes are on their way, and must not be sent once more.
    struct sent {
      io::buffer& packed;
      ~sent() { packed.clear(); }
    } const guard{packed_};
    co_await body_access::write_unfiltered(out_, packed_.bytes());
  }

  body_writer& out_;
  compressor& packer_;
  io::buffer packed_{{.prepend = 0}};
};

task<> write_compressed(body_writer& out, compressor& packer,
                        move_only_function<task<>(body_writer&)>& write) {
  compressing_filter filter(out, packer);
  task<> writing = write(out);
  co_await std::move(writing);
  co_await filter.finish();
}

bool may_be_compressed(const response& answer) noexcept {
  const http::fields& fields = answer.fields();
  const auto type = fields.get("Content-Type");
  if (!type || !is_compressible(*type) || type->starts_with("text/event-stream")) return false;
  const auto has = [&](std::string_view name) { return fields.contains(name); };
  return answer.status() != status::partial_content && !has("Content-Encoding") &&
         !has("Content-Range") && !has("Content-Digest") && !has("Content-MD5") && !has("Digest") &&
         !has_word(fields, "Cache-Control", "no-transform");
}

void vary(response& answer) {
  if (has_word(answer.fields(), "Vary", "Accept-Encoding")) return;
  if (has_word(answer.fields(), "Vary", "*")) return;
  answer.add("Vary", "Accept-Encoding");
}

void weaken_tag(response& answer) {
  const auto tag = answer.fields().get("ETag");
  if (tag && tag->starts_with('"')) answer.set("ETag", "W/" + std::string(*tag));
}

void set_coding(response& answer, content_coding coding) {
  answer.set("Content-Encoding", to_text(coding));
  weaken_tag(answer);
}

std::optional<content_coding> coding_for(const request& from, const compress_options& options) {
  const std::string accepted = joined(from.fields(), "Accept-Encoding");
  const auto coding = negotiate_coding(accepted, options.codings);
  return coding == content_coding::identity ? std::nullopt : coding;
}

// The handler of HEAD has told the length of a body that it does not have, and the one to GET may
// be compressed. Its length is then unknown, and left out (RFC 9110, 8.6).
void adapt_head(response& answer, const request& from, const compress_options& options) {
  const auto length = answer.fields().get("Content-Length");
  const auto size = length ? gyre::detail::parse_decimal<std::uint64_t>(*length) : std::nullopt;
  if (!size || *size < options.min_size) return;
  vary(answer);
  if (!coding_for(from, options)) return;
  answer.fields().erase("Content-Length");
  weaken_tag(answer);
}

task<> pack(compressor& packer, std::string_view body, io::buffer& packed) {
  packer.write(std::as_bytes(std::span(body)), packed);
  packer.finish(packed);
  co_return;
}

task<response> compress_answer(const settings& used, request& from, next_handler next) {
  task<response> rest = next(from);
  response answer = co_await std::move(rest);
  if (answer.status() == status::not_modified) vary(answer);  // as the whole response had it
  if (!may_be_compressed(answer)) co_return answer;
  const bool is_stream = body_access::is_stream(answer);
  const bool is_whole = body_access::is_whole(answer);
  const std::string_view body = answer.body();
  if (is_whole && body.empty() && from.method() == method::head) {
    adapt_head(answer, from, used.options);
    co_return answer;
  }
  if (is_stream) {
    const auto length = body_access::length(answer);
    if (length && *length < used.options.min_size) co_return answer;
  } else if (!is_whole || body.empty() || body.size() < used.options.min_size) {
    co_return answer;
  }
  vary(answer);
  const auto coding = coding_for(from, used.options);
  if (!coding) co_return answer;

  if (is_stream) {
    auto permit = stream_permit::acquire(used.streams, used.options.max_streams);
    if (!permit) co_return answer;
    auto& write = body_access::writing_function(answer);
    write = [write = std::move(write), packer = compressor(*coding), permit = std::move(*permit)](
                body_writer& out) mutable { return write_compressed(out, packer, write); };
    body_access::length(answer).reset();
    set_coding(answer, *coding);
    co_return answer;
  }

  compressor packer(*coding);
  io::buffer packed({.prepend = 0});
  task<> packing = pack(packer, body, packed);
  if (body.size() > used.options.offload_size) {
    auto elsewhere = gyre::on(io::blocking_pool(), std::move(packing));
    co_await std::move(elsewhere);
  } else {
    co_await std::move(packing);
  }
  if (packed.size() >= body.size()) co_return answer;
  answer.set_body(std::string(packed.text()));
  set_coding(answer, *coding);
  co_return answer;
}

}  // namespace

middleware compress(compress_options options) {
  if (std::ranges::find(options.codings, content_coding::identity) != options.codings.end()) {
    throw std::invalid_argument("http::compress: identity is no coding to compress by");
  }
  return [used = settings{.options = std::move(options)}](request& from, next_handler next) {
    return compress_answer(used, from, std::move(next));
  };
}

}  // namespace gyre::http
