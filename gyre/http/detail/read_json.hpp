// SPDX-License-Identifier: Apache-2.0
// read_json: a text of JSON as a value.
#pragma once

#include <gyre/http/json_error.hpp>
#include <gyre/http/json_traits.hpp>

#include <exception>
#include <new>
#include <string_view>

namespace gyre::http::detail {

/// Calls json_traits<T>::read(), and turns the exceptions of a library into a json_error.
template <json_readable T>
T read_json(std::string_view text) {
  try {
    return json_traits<T>::read(text);
  } catch (const http_error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {
    throw json_error::malformed();
  }
}

}  // namespace gyre::http::detail
