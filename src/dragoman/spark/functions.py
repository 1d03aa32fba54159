"""The functions that read-only SQL may call.

A listed function computes its result from its arguments alone. It opens no file or address, calls
no Java method, and reveals nothing of the worker's process. Refused by absence, for example:
`from_xml` (its options name files and addresses), `from_json`, `from_csv`, `from_avro` and
`from_protobuf` (schemas and descriptors), `reflect`, `input_file_name`, `current_user`.
"""

from typing import Final

_OPERATORS: Final = """
    ! % & * + - / < << <= <=> = == > >= >> >>> ^ | ~ and between div in like ilike mod not or
    regexp regexp_like rlike when
"""
_CASTS: Final = """
    bigint binary boolean cast date decimal double float int smallint string time timestamp tinyint
"""
_NUMBERS: Final = """
    abs acos acosh asin asinh atan atan2 atanh bin bit_count bit_get bround cbrt ceil ceiling conv
    cos cosh cot csc degrees e exp expm1 factorial floor format_number getbit greatest hypot least
    ln log log10 log1p log2 nanvl negative pi pmod positive pow power radians rand randn random rint
    round sec shiftleft shiftright shiftrightunsigned sign signum sin sinh sqrt tan tanh to_number
    try_add try_divide try_mod try_multiply try_subtract try_to_number uniform width_bucket
"""
_TEXTS: Final = """
    ascii base64 bit_length btrim char char_length character_length chr collate collation concat
    concat_ws contains decode elt encode endswith find_in_set format_string from_base32 hex initcap
    instr is_valid_utf8 jaro_winkler_similarity lcase left len length levenshtein locate lower lpad
    ltrim luhn_check make_valid_utf8 mask octet_length overlay parse_url position printf quote
    randstr regexp_count regexp_extract regexp_extract_all regexp_instr regexp_replace regexp_substr
    repeat replace reverse right rpad rtrim sentences soundex space split split_part startswith
    str_to_map substr substring substring_index to_base32 to_binary to_char to_varchar translate
    trim try_parse_url try_to_binary try_url_decode try_validate_utf8 ucase unbase64 unhex upper
    url_decode url_encode uuid validate_utf8
"""
_HASHES: Final = "crc32 hash hmac md5 sha sha1 sha2 xxhash64"
_TIMES: Final = """
    add_months convert_timezone curdate current_date current_time current_timestamp current_timezone
    date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc dateadd
    datediff datepart day dayname dayofmonth dayofweek dayofyear extract from_unixtime
    from_utc_timestamp hour last_day localtime localtimestamp make_date make_dt_interval
    make_interval make_time make_timestamp make_timestamp_ltz make_timestamp_ntz make_ym_interval
    minute month monthname months_between next_day now quarter second session_window time_bucket
    time_diff time_from_micros time_from_millis time_from_seconds time_to_micros time_to_millis
    time_to_seconds time_trunc timestamp_micros timestamp_millis timestamp_nanos timestamp_seconds
    to_date to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp
    to_utc_timestamp trunc try_make_interval try_make_timestamp try_make_timestamp_ltz
    try_make_timestamp_ntz try_to_date try_to_time try_to_timestamp unix_date unix_micros
    unix_millis unix_nanos unix_seconds unix_timestamp weekday weekofyear window window_time year
"""
_CONDITIONS: Final = """
    assert_true coalesce equal_null if ifnull isnan isnotnull isnull nullif nullifzero nvl nvl2
    raise_error typeof zeroifnull
"""
_COLLECTIONS: Final = """
    aggregate array array_append array_compact array_contains array_distinct array_except
    array_insert array_intersect array_join array_max array_min array_position array_prepend
    array_remove array_repeat array_size array_sort array_union arrays_overlap arrays_zip
    cardinality element_at exists explode explode_outer filter flatten forall get inline
    inline_outer map map_concat map_contains_key map_entries map_filter map_from_arrays
    map_from_entries map_keys map_values map_zip_with named_struct posexplode posexplode_outer
    reduce sequence shuffle size slice sort_array stack struct transform transform_keys
    transform_values try_element_at zip_with
"""
_JSON: Final = """
    get_json_object is_valid_variant is_variant_null json_array_length json_object_keys json_tuple
    parse_json to_csv to_json to_variant_object try_parse_json try_variant_get variant_get
"""
_AGGREGATES: Final = """
    any any_value approx_count_distinct approx_percentile approx_top_k array_agg avg bit_and bit_or
    bit_xor bool_and bool_or collect_list collect_set corr count count_if covar_pop covar_samp every
    first first_value grouping grouping_id histogram_numeric hll_sketch_agg hll_sketch_estimate
    hll_union hll_union_agg kurtosis last last_value listagg max max_by mean median min min_by mode
    percentile percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy regr_count
    regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness some std stddev stddev_pop
    stddev_samp string_agg sum try_avg try_sum var_pop var_samp variance
"""
_WINDOWS: Final = """
    cume_dist dense_rank lag lead monotonically_increasing_id nth_value ntile percent_rank rank
    row_number
"""
#: Everything a query may call by name.
FUNCTIONS: Final = frozenset(
    " ".join(
        (
            *(_OPERATORS, _CASTS, _NUMBERS, _TEXTS, _HASHES, _TIMES, _CONDITIONS, _COLLECTIONS),
            *(_JSON, _AGGREGATES, _WINDOWS),
        )
    ).split()
)
#: Table functions that read only their arguments.
_TABLE_FUNCTIONS: Final = """
    collations explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer
    range sequence sql_keywords stack variant_explode variant_explode_outer
"""
TABLE_FUNCTIONS: Final = frozenset(_TABLE_FUNCTIONS.split())
