/* YAML and JSON text to jansson values, with limits: text from outside never makes us deep or large. */
#pragma once

#include <glib.h>
#include <jansson.h>

#define WEFT_TEXT_DEPTH_MAX 16
#define WEFT_TEXT_BYTES_MAX (16u << 20)

/* One YAML 1.1 document (JSON is YAML too). Plain true/false/null and integers get their types, all else is text; anchors,
 * aliases, tags, duplicate keys and several documents are refused. name is for messages ("weft.yaml"), which carry the line. */
json_t *weft_yaml_parse(const char *text, gsize length, const char *name, GError **error);

/* Strict JSON: no duplicate keys, no trailing text, no NUL, at most WEFT_TEXT_DEPTH_MAX deep. */
json_t *weft_json_parse(const char *text, gsize length, GError **error);
