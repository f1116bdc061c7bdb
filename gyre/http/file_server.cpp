// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/file_server.hpp>

#include <gyre/base/detail/system_clocks.hpp>
#include <gyre/http/conditional.hpp>
#include <gyre/http/date.hpp>
#include <gyre/http/detail/boundary.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/site.hpp>
#include <gyre/http/media_type.hpp>
#include <gyre/http/range.hpp>
#include <gyre/io/blocking_pool.hpp>
#include <gyre/io/file.hpp>
#include <gyre/task/schedule.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::http {
namespace {

using detail::found_file;
using detail::root_directory;
using detail::site;

// The size of one read for a response of several ranges, which sendfile cannot send.
constexpr std::size_t piece_size = std::size_t{64} << 10;

// Holds the values of all fields called `name`, joined by ", ".
class joined_field {
 public:
  joined_field(field_list fields, std::string_view name) : value_(fields.get(name)) {
    std::size_t count = 0;
    for (const field& field : fields) {
      if (!detail::equals_ignoring_case(field.name, name)) continue;
      if (++count != 1) text_ += ", ";
      text_ += field.value;
    }
    if (count > 1) value_ = text_;
  }
  joined_field(const joined_field&) = delete;
  joined_field& operator=(const joined_field&) = delete;
  ~joined_field() = default;

  [[nodiscard]] std::optional<std::string_view> get() const noexcept { return value_; }

 private:
  std::string text_;
  std::optional<std::string_view> value_;
};

void append_hex(std::string& text, std::uint64_t number) {
  char digits[16];
  const char* const end = std::to_chars(digits, digits + sizeof digits, number, 16).ptr;
  text.append(digits, static_cast<std::size_t>(end - digits));
}

std::string entity_tag_of(const found_file& file) {
  using namespace std::chrono;
  std::string tag;
  // The tag of a recently changed file is weak: file systems stamp changes with a clock of some
  // milliseconds' resolution, which may be another machine's clock.
  const auto age = gyre::detail::wall_now() - file.modified;
  if (age < seconds{2} && age > -hours{24}) tag += "W/";
  tag += '"';
  append_hex(tag, static_cast<std::uint64_t>(file.modified.time_since_epoch().count()));
  tag += '-';
  append_hex(tag, file.size);
  if (file.coding != content_coding::identity) {
    tag += '-';
    tag += to_text(file.coding);
  }
  tag += '"';
  return tag;
}

std::chrono::sys_seconds present_second() {
  return std::chrono::floor<std::chrono::seconds>(gyre::detail::wall_now());
}

// Ignores If-Modified-Since with a date in the future: this server never sends one (RFC 9110,
// 8.8.2.1), and the date would hide every change until then.
std::optional<std::string_view> drop_future_date(std::chrono::sys_seconds time,
                                                 std::optional<std::string_view> field) {
  const auto date = field ? parse_date(detail::trim(*field), time) : std::nullopt;
  return date && *date > time ? std::nullopt : field;
}

response make_error_response(int error) {
  switch (error) {
    case EACCES:
    case EPERM: return response::text("This may not be read.\n", status::forbidden);
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN:
    case EIO: return response::text("Try again later.\n", status::service_unavailable);
    default: return response::text("There is no such file.\n", status::not_found);
  }
}

// Redirects to the path with '/' at the end. The location is relative to the request's path and
// keeps the query.
response redirect_to_directory(const request& request) {
  const std::string_view path = request.path();
  std::string location = "./";
  location += path.substr(path.rfind('/') + 1);
  location += '/';
  if (!request.query_text().empty()) {
    location += '?';
    location += request.query_text();
  }
  return response::redirect(location, status::moved_permanently);
}

// --- Several ranges ---

// A part of a multipart body: boundary and headers, followed by bytes of the file.
struct body_part {
  std::string head;
  byte_range bytes;
};

struct multipart_body {
  io::file file;
  std::vector<body_part> parts;
  std::string end;
};

task<> write_parts(multipart_body& body, body_writer& output) {
  io::buffer memory;
  for (const body_part& part : body.parts) {
    co_await output.write(part.head);
    std::uint64_t offset = part.bytes.first;
    std::uint64_t remainder = part.bytes.size;
    while (remainder != 0) {
      memory.clear();
      const std::span<std::byte> buffer = memory.prepare(piece_size);
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(remainder, piece_size));
      const std::size_t count = co_await body.file.read_at(buffer.first(size), offset);
      if (count == 0) throw std::runtime_error("http::file_server: a file has become shorter");
      co_await output.write(buffer.first(count));
      offset += count;
      remainder -= count;
    }
  }
  co_await output.write(body.end);
}

response make_multipart_response(found_file& file, std::string_view type,
                                 const byte_ranges& ranges) {
  const std::string boundary = detail::random_boundary();
  const auto body = std::make_shared<multipart_body>();
  body->file = io::file(std::move(file.fd));
  std::uint64_t length = 0;
  for (const byte_range& range : ranges) {
    std::string head = body->parts.empty() ? "--" : "\r\n--";
    head += boundary;
    head += "\r\nContent-Type: ";
    head += type;
    head += "\r\nContent-Range: " + content_range(range, file.size) + "\r\n\r\n";
    length += head.size() + range.size;
    body->parts.push_back({.head = std::move(head), .bytes = range});
  }
  body->end = "\r\n--" + boundary + "--\r\n";
  length += body->end.size();
  response result =
      response::stream("multipart/byteranges; boundary=" + boundary, length,
                       [body](body_writer& output) { return write_parts(*body, output); });
  result.set_status(status::partial_content);
  return result;
}

// --- Files ---

response make_file_response(const request& request, found_file& file, std::string_view type,
                            const validators& state, std::chrono::sys_seconds time) {
  const std::uint64_t size = file.size;
  const auto range = request.field("Range");
  const bool is_ranged = range && request.method() == method::get;
  const auto if_range = request.field("If-Range");
  if (is_ranged && (!if_range || if_range_holds(*if_range, state, time))) {
    const byte_ranges ranges = byte_ranges::parse(*range, size);
    if (ranges.outcome() == range_outcome::not_satisfiable) {
      return response::text("There are no such bytes.\n", status::range_not_satisfiable)
          .set("Content-Range", unsatisfied_content_range(size));
    }
    if (ranges.size() == 1) {
      const byte_range part = *ranges.begin();
      response result = response::file(type, std::move(file.fd), part.first, part.size);
      result.set_status(status::partial_content);
      result.set("Content-Range", content_range(part, size));
      return result;
    }
    if (ranges.size() > 1) return make_multipart_response(file, type, ranges);
  }
  return response::file(type, std::move(file.fd), 0, size);
}

// Limits Last-Modified to the Date (RFC 9110, 8.8.2.1): after a date in the future, a client would
// regard a replaced file as unchanged until that date.
response respond_with_file(const site& files, const request& request, found_file& file,
                           std::string_view name) {
  const std::string tag = entity_tag_of(file);
  const auto time = present_second();
  const auto time_of_change =
      std::min(std::chrono::floor<std::chrono::seconds>(file.modified), time);
  const validators state{.entity_tag = tag, .last_modified = time_of_change};
  const joined_field if_match(request.fields(), "If-Match");
  const joined_field if_none_match(request.fields(), "If-None-Match");
  const conditions request_conditions{
      .if_match = if_match.get(),
      .if_none_match = if_none_match.get(),
      .if_modified_since = drop_future_date(time, request.field("If-Modified-Since")),
      .if_unmodified_since = request.field("If-Unmodified-Since")};
  response result;
  switch (evaluate(request.method(), request_conditions, state)) {
    case condition_outcome::precondition_failed:
      return response::text("The file is another one now.\n", status::precondition_failed);
    case condition_outcome::not_modified: result = response(status::not_modified); break;
    case condition_outcome::proceed:
      result = make_file_response(request, file, media_type_of(name), state, time);
      break;
  }
  if (files.options.precompressed) result.set("Vary", "Accept-Encoding");
  if (result.status() == status::range_not_satisfiable) return result;
  if (result.status() != status::not_modified) {
    result.set("Accept-Ranges", "bytes").set("X-Content-Type-Options", "nosniff");
    if (file.coding != content_coding::identity) {
      result.set("Content-Encoding", to_text(file.coding));
    }
  }
  result.set("ETag", tag).set("Last-Modified", format_date(time_of_change));
  // Sets the Date here, because the Date that the server caches may be earlier than
  // `time_of_change`.
  if (time - time_of_change <= std::chrono::seconds{1}) result.set("Date", format_date(time));
  if (!files.options.cache_control.empty()) {
    result.set("Cache-Control", files.options.cache_control);
  }
  return result;
}

// The arguments of a lookup that may wait for a disk.
struct waiting_lookup {
  const site& files;
  const std::string& path;
  std::string_view accept_encoding;
  std::string_view url_path;
};

task<found_file> find(const waiting_lookup& lookup) {
  co_return lookup.files.find(lookup.path, lookup.accept_encoding, lookup.url_path,
                              root_directory::lookup_scope::any);
}

task<response> serve(const site& files, request& request) {
  if (request.method() != method::get && request.method() != method::head) {
    co_return response(status::method_not_allowed).set("Allow", "GET, HEAD");
  }
  const std::string_view remainder = request.raw_param(files.options.parameter);
  if (remainder.data() == nullptr) {
    throw std::logic_error("http::file_server: the route's pattern has no {" +
                           files.options.parameter + "...}");
  }
  const auto path = detail::path_below_root(remainder, files.options.hidden_files);
  if (!path) co_return make_error_response(ENOENT);

  const joined_field accept_encoding(request.fields(), "Accept-Encoding");
  const waiting_lookup lookup{files, *path, accept_encoding.get().value_or(std::string_view()),
                              request.path()};
  found_file file = files.find(*path, lookup.accept_encoding, request.path(),
                               root_directory::lookup_scope::cached);
  if (file.error == EAGAIN) {
    auto find_task = gyre::on(io::blocking_pool(), find(lookup));
    file = co_await std::move(find_task);
  }
  switch (file.which) {
    case found_file::kind::none: break;
    case found_file::kind::directory: co_return redirect_to_directory(request);
    case found_file::kind::list: co_return response::html(std::move(file.page));
    case found_file::kind::file: {
      const bool is_index = path->empty() || path->ends_with('/');
      co_return respond_with_file(files, request, file, is_index ? files.options.index : *path);
    }
  }
  co_return make_error_response(file.error);
}

}  // namespace

file_server::file_server(const std::string& root, file_server_options options)
    : site_(std::make_shared<const detail::site>(root, std::move(options))) {}

task<response> file_server::operator()(request& request) const { return serve(*site_, request); }

}  // namespace gyre::http
