// SPDX-License-Identifier: Apache-2.0
// status: the status codes of HTTP responses in IANA's registry, and their reason phrases.
//
//     using gyre::http::status;
//     std::string_view reason = gyre::http::reason_phrase(status::not_found);  // "Not Found"
//     if (gyre::http::is_server_error(response_status)) retry_later();
#pragma once

#include <cstdint>
#include <string_view>

namespace gyre::http {

/// A status code. Any number from 100 to 999 may occur: `static_cast<status>(299)` is a code
/// without a name. Unused codes, such as 306, have no name here. Codes from 600 on are invalid and
/// count as server errors (RFC 9110, 15).
enum class status : std::uint16_t {
  continue_ = 100,  // NOLINT(readability-identifier-naming): a keyword otherwise
  switching_protocols = 101,
  processing = 102,
  early_hints = 103,
  ok = 200,
  created = 201,
  accepted = 202,
  non_authoritative_information = 203,
  no_content = 204,
  reset_content = 205,
  partial_content = 206,
  multi_status = 207,
  already_reported = 208,
  im_used = 226,
  multiple_choices = 300,
  moved_permanently = 301,
  found = 302,
  see_other = 303,
  not_modified = 304,
  use_proxy = 305,
  temporary_redirect = 307,
  permanent_redirect = 308,
  bad_request = 400,
  unauthorized = 401,
  payment_required = 402,
  forbidden = 403,
  not_found = 404,
  method_not_allowed = 405,
  not_acceptable = 406,
  proxy_authentication_required = 407,
  request_timeout = 408,
  conflict = 409,
  gone = 410,
  length_required = 411,
  precondition_failed = 412,
  content_too_large = 413,
  uri_too_long = 414,
  unsupported_media_type = 415,
  range_not_satisfiable = 416,
  expectation_failed = 417,
  misdirected_request = 421,
  unprocessable_content = 422,
  locked = 423,
  failed_dependency = 424,
  too_early = 425,
  upgrade_required = 426,
  precondition_required = 428,
  too_many_requests = 429,
  request_header_fields_too_large = 431,
  unavailable_for_legal_reasons = 451,
  internal_server_error = 500,
  not_implemented = 501,
  bad_gateway = 502,
  service_unavailable = 503,
  gateway_timeout = 504,
  http_version_not_supported = 505,
  variant_also_negotiates = 506,
  insufficient_storage = 507,
  loop_detected = 508,
  network_authentication_required = 511,
};

/// The reason phrase of the registry; "" for a code without a name.
[[nodiscard]] constexpr std::string_view reason_phrase(status code) noexcept {
  switch (code) {
    case status::continue_: return "Continue";
    case status::switching_protocols: return "Switching Protocols";
    case status::processing: return "Processing";
    case status::early_hints: return "Early Hints";
    case status::ok: return "OK";
    case status::created: return "Created";
    case status::accepted: return "Accepted";
    case status::non_authoritative_information: return "Non-Authoritative Information";
    case status::no_content: return "No Content";
    case status::reset_content: return "Reset Content";
    case status::partial_content: return "Partial Content";
    case status::multi_status: return "Multi-Status";
    case status::already_reported: return "Already Reported";
    case status::im_used: return "IM Used";
    case status::multiple_choices: return "Multiple Choices";
    case status::moved_permanently: return "Moved Permanently";
    case status::found: return "Found";
    case status::see_other: return "See Other";
    case status::not_modified: return "Not Modified";
    case status::use_proxy: return "Use Proxy";
    case status::temporary_redirect: return "Temporary Redirect";
    case status::permanent_redirect: return "Permanent Redirect";
    case status::bad_request: return "Bad Request";
    case status::unauthorized: return "Unauthorized";
    case status::payment_required: return "Payment Required";
    case status::forbidden: return "Forbidden";
    case status::not_found: return "Not Found";
    case status::method_not_allowed: return "Method Not Allowed";
    case status::not_acceptable: return "Not Acceptable";
    case status::proxy_authentication_required: return "Proxy Authentication Required";
    case status::request_timeout: return "Request Timeout";
    case status::conflict: return "Conflict";
    case status::gone: return "Gone";
    case status::length_required: return "Length Required";
    case status::precondition_failed: return "Precondition Failed";
    case status::content_too_large: return "Content Too Large";
    case status::uri_too_long: return "URI Too Long";
    case status::unsupported_media_type: return "Unsupported Media Type";
    case status::range_not_satisfiable: return "Range Not Satisfiable";
    case status::expectation_failed: return "Expectation Failed";
    case status::misdirected_request: return "Misdirected Request";
    case status::unprocessable_content: return "Unprocessable Content";
    case status::locked: return "Locked";
    case status::failed_dependency: return "Failed Dependency";
    case status::too_early: return "Too Early";
    case status::upgrade_required: return "Upgrade Required";
    case status::precondition_required: return "Precondition Required";
    case status::too_many_requests: return "Too Many Requests";
    case status::request_header_fields_too_large: return "Request Header Fields Too Large";
    case status::unavailable_for_legal_reasons: return "Unavailable For Legal Reasons";
    case status::internal_server_error: return "Internal Server Error";
    case status::not_implemented: return "Not Implemented";
    case status::bad_gateway: return "Bad Gateway";
    case status::service_unavailable: return "Service Unavailable";
    case status::gateway_timeout: return "Gateway Timeout";
    case status::http_version_not_supported: return "HTTP Version Not Supported";
    case status::variant_also_negotiates: return "Variant Also Negotiates";
    case status::insufficient_storage: return "Insufficient Storage";
    case status::loop_detected: return "Loop Detected";
    case status::network_authentication_required: return "Network Authentication Required";
  }
  return {};
}

/// Returns the code as a number, such as 404.
[[nodiscard]] constexpr unsigned to_number(status code) noexcept {
  return static_cast<unsigned>(code);
}

/// Whether the code is from 100 to 199: an interim response, except 101, which is final.
[[nodiscard]] constexpr bool is_informational(status code) noexcept {
  return to_number(code) / 100 == 1;
}
/// Whether the code is from 200 to 299.
[[nodiscard]] constexpr bool is_success(status code) noexcept { return to_number(code) / 100 == 2; }
/// Whether the code is from 300 to 399; includes 304, which redirects nowhere.
[[nodiscard]] constexpr bool is_redirection(status code) noexcept {
  return to_number(code) / 100 == 3;
}
/// Whether the code is from 400 to 499.
[[nodiscard]] constexpr bool is_client_error(status code) noexcept {
  return to_number(code) / 100 == 4;
}
/// Whether the code is 500 or more.
[[nodiscard]] constexpr bool is_server_error(status code) noexcept {
  return to_number(code) / 100 >= 5;
}
/// Whether responses of this status never have a body (RFC 9112, 6.3).
[[nodiscard]] constexpr bool never_has_body(status code) noexcept {
  return is_informational(code) || code == status::no_content || code == status::not_modified;
}

}  // namespace gyre::http
