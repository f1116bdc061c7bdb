// SPDX-License-Identifier: Apache-2.0
// The site that every contender of the HTTP experiments serves, and the parts of it that are the
// same code for all.
//
//     GET  /json         the text of make_json(), "application/json"
//     GET  /file         the bytes of site::file, "application/octet-stream"
//     GET  anything else `hello`, "text/plain"
//     POST anything      the body of the request, "application/octet-stream"
//
// Each answer has Content-Length, Content-Type, and Date, which is rendered once a second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lab::http {

inline constexpr std::string_view hello = "Hello, World!";
inline constexpr std::string_view text_type = "text/plain";
inline constexpr std::string_view json_type = "application/json";
inline constexpr std::string_view bytes_type = "application/octet-stream";
inline constexpr std::size_t file_bytes = std::size_t{1} << 20;

/// The means of a server to serve the site. The file is in memory, and open as long as the process.
struct site {
  int file = -1;          ///< its descriptor
  std::string file_path;  ///< its name, for any process
};

/// Makes the file.
/// Errors: throws std::system_error.
site make_site();

/// The bytes of the file, and of bodies that are sent.
std::string make_pattern(std::size_t size, std::size_t seed);

/// A text of a few fields. Servers make it for each request.
std::string make_json();

/// The present date as the field Date has it, rendered once a second, for servers whose library
/// renders none.
/// Thread-safety: one thread. Lifetime: the view, until the next call.
std::string_view cached_date();

}  // namespace lab::http
