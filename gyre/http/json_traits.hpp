// SPDX-License-Identifier: Apache-2.0
// json_traits: joins a JSON library of your choice to request::json() and response::json().
//
//     api.post("/books", [&](gyre::http::request& request) {
//       const auto added = request.json<book>();  // 415, 400 or 422 if the body is no book
//       return gyre::http::response::json(shelf.add(added), gyre::http::status::created);
//     });
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

namespace gyre::http {

/// How a T is read from JSON and written as JSON. gyre has no JSON library; specialise the template
/// for your types, or for all that your library knows, as here for nlohmann's:
///
///     template <class T>
///       requires requires(nlohmann::json& tree, const T& value) { nlohmann::to_json(tree, value); }
///     struct gyre::http::json_traits<T> {
///       static T read(std::string_view text) {
///         const auto tree = nlohmann::json::parse(text, nullptr, false);
///         if (tree.is_discarded()) throw gyre::http::json_error::malformed();
///         try {
///           return tree.get<T>();
///         } catch (const nlohmann::json::exception& error) {
///           throw gyre::http::json_error::mismatch(error.what());
///         }
///       }
///       static std::string write(const T& value) { return nlohmann::json(value).dump(); }
///     };
///
/// read() gets the whole body, and throws a json_error, whose status the client gets. After any
/// other std::exception but std::bad_alloc the client gets 400. Strangers choose the body: the
/// library must bound the depth of nested values, or not recurse. Both functions may be called on
/// several threads at the same time; either may be missing.
template <class T>
struct json_traits;

/// A type that json_traits read from JSON.
template <class T>
concept json_readable = std::same_as<T, std::remove_cvref_t<T>> && requires(std::string_view text) {
  { json_traits<T>::read(text) } -> std::convertible_to<T>;
};
/// A type that json_traits write as JSON.
template <class T>
concept json_writable = requires(const T& value) {
  { json_traits<T>::write(value) } -> std::convertible_to<std::string>;
};

namespace detail {

/// Whether a T is JSON already, in place of a value to write as JSON.
template <class T>
concept json_text = std::same_as<T, std::string> || std::same_as<T, std::string_view> ||
                    std::convertible_to<const T&, const char*>;

}  // namespace detail
}  // namespace gyre::http
