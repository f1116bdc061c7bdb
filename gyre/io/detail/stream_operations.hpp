// SPDX-License-Identifier: Apache-2.0
// What a stream's coroutines ask for, as Operations of awaiting.hpp.
#pragma once

#include <gyre/io/buffer.hpp>
#include <gyre/io/detail/awaiting.hpp>
#include <gyre/io/error.hpp>
#include <gyre/io/received.hpp>
#include <gyre/io/request.hpp>

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

namespace gyre::io::detail {

struct reading : single_request<read_request> {
  using value_type = std::size_t;
  static constexpr const char* name = "gyre::io::stream: read";

  reading(open_descriptor* on, function report, std::span<std::byte> to, bool whole) noexcept
      : single_request(on, to, report, whole) {}
  reading(const reading& other, function report) noexcept
      : reading(other.on(), report, other.rest, other.whole()) {}

  std::optional<io::result> begin() noexcept {
    if (rest.empty()) return io::result::of(0);
    return single_request::begin();
  }
  std::error_code check(io::result) const noexcept {
    if (whole() && !rest.empty()) return errc::unexpected_end;
    return {};
  }
  static std::size_t value(io::result made) noexcept { return made.count(); }
};

struct receiving : single_request<receive_request> {
  using value_type = received;
  static constexpr const char* name = "gyre::io::stream: receive";

  receiving(open_descriptor* on, function report) noexcept : single_request(on, report) {}
  receiving(const receiving& other, function report) noexcept : receiving(other.on(), report) {}

  received value(io::result) noexcept { return std::move(data); }
};

/// Receives, and appends that to a buffer, until a delimiter is there.
struct reading_until : single_request<receive_request> {
  using value_type = std::size_t;
  static constexpr const char* name = "gyre::io::stream: read_until";

  reading_until(open_descriptor* on, function report, buffer& to, std::string_view delimiter,
                std::size_t limit) noexcept
      : single_request(on, report), to_(&to), delimiter_(delimiter), limit_(limit) {}
  reading_until(const reading_until& other, function report) noexcept
      : reading_until(other.on(), report, *other.to_, other.delimiter_, other.limit_) {}

  std::optional<io::result> begin() noexcept { return receive_until_found(); }
  std::optional<io::result> go_on(io::result made) noexcept;
  std::error_code check(io::result) const noexcept { return failure_; }
  static std::size_t value(io::result made) noexcept { return made.count(); }

 private:
  std::optional<io::result> receive_until_found() noexcept;
  /// Whether the search has come to an end: with that result.
  std::optional<io::result> search() noexcept;
  std::optional<io::result> take(io::result made) noexcept;

  buffer* to_;
  std::string_view delimiter_;
  std::size_t limit_;
  std::size_t searched_ = 0;
  std::error_code failure_;
};

struct writing : single_request<write_request> {
  using value_type = std::size_t;
  static constexpr const char* name = "gyre::io::stream: write";

  writing(open_descriptor* on, function report, std::span<const std::byte> from,
          bool whole) noexcept
      : single_request(on, from, report, whole) {}
  writing(const writing& other, function report) noexcept
      : writing(other.on(), report, other.rest, other.whole()) {}

  std::optional<io::result> begin() noexcept {
    if (rest.empty()) return io::result::of(0);
    return single_request::begin();
  }
  static std::size_t value(io::result made) noexcept { return made.count(); }
};

/// Writes out of the loop's memory, which is given back before this waits.
struct writing_received : single_request<write_request> {
  using value_type = std::size_t;
  static constexpr const char* name = "gyre::io::stream: write";

  writing_received(open_descriptor* on, function report, received&& from) noexcept
      : single_request(on, from.bytes(), report, true), from_(std::move(from)) {}
  writing_received(writing_received&& other, function report) noexcept
      : writing_received(other.on(), report, std::move(other.from_)) {}

  std::optional<io::result> begin() noexcept {
    std::optional<io::result> made = io::result::of(0);
    if (!rest.empty()) made = single_request::begin();
    if (!made) made = go_on_with_copy();
    from_.reset();
    return made;
  }
  static std::size_t value(io::result made) noexcept { return made.count(); }

 private:
  std::optional<io::result> go_on_with_copy() noexcept;

  received from_;
  std::unique_ptr<std::byte[]> copy_;
};

struct gathering : single_request<gather_request> {
  using value_type = std::size_t;
  static constexpr const char* name = "gyre::io::stream: write";

  gathering(open_descriptor* on, function report, std::span<const iovec> from, bool whole) noexcept
      : single_request(on, from.first(0), report), rest_(from), whole_(whole) {}
  gathering(const gathering& other, function report) noexcept
      : gathering(other.on(), report, other.rest_, other.whole_) {}

  std::optional<io::result> begin() noexcept { return write_rest(); }
  std::optional<io::result> go_on(io::result made) noexcept;
  static std::size_t value(io::result made) noexcept { return made.count(); }

 private:
  std::optional<io::result> write_rest() noexcept;
  /// Whether that was all.
  bool take(std::size_t count) noexcept;

  std::span<const iovec> rest_;
  iovec first_{};  // what is left of rest_[0], once some of it is written
  std::size_t done_ = 0;
  bool whole_;
};

struct waiting_for_readiness : single_request<readiness_request> {
  using value_type = void;
  static constexpr const char* name = "gyre::io: wait";

  waiting_for_readiness(open_descriptor* on, function report, direction which) noexcept
      : single_request(on, which, report) {}
  waiting_for_readiness(const waiting_for_readiness& other, function report) noexcept
      : waiting_for_readiness(other.on(), report,
                              other.writes() ? direction::write : direction::read) {}

  static void value(io::result) noexcept {}
};

/// sendfile(2), without SIGPIPE. Would block if `to` has no room; 0 if the file ends at `offset`.
result send_file_part(int to, int file, ::off_t& offset, std::size_t count) noexcept;

/// sendfile(2), each time that the stream has room.
struct sending_file : single_request<readiness_request> {
  using value_type = std::size_t;
  static constexpr const char* name = "gyre::io::stream: send_file";

  sending_file(open_descriptor* on, function report, int file, ::off_t offset,
               std::size_t count) noexcept
      : single_request(on, direction::write, report), file_(file), offset_(offset), left_(count) {}
  sending_file(const sending_file& other, function report) noexcept
      : sending_file(other.on(), report, other.file_, other.offset_, other.left_) {}

  std::optional<io::result> begin() noexcept { return send_rest(); }
  std::optional<io::result> go_on(io::result made) noexcept;
  static std::size_t value(io::result made) noexcept { return made.count(); }

 private:
  // At once: so that other descriptors get their turn.
  static constexpr std::size_t most_at_once = std::size_t{1} << 20;

  std::optional<io::result> send_rest() noexcept;

  int file_;
  ::off_t offset_;
  std::size_t left_;
  std::size_t done_ = 0;
};

}  // namespace gyre::io::detail
