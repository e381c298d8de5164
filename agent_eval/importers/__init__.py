"""Importers: exports of model providers, agent frameworks and recorders, as cases with recorded traces.

An import has four steps; a format takes part in the second and the third:

1. `records.py` reads the inputs record by record: lines of JSON Lines, items of a JSON array, whole
   documents, server-sent event streams; plain, gzip, zip, directories, standard input. A list that is one
   record, such as the messages of a conversation, must be recognised by `Format.detect`, which gets the list.
2. `recognise.py` asks each format of the family how sure it is (`Format.detect`), refuses to choose between
   two that are within 0.15, and `assembly.py` has the format prepare the record (`Format.prepare`): its
   `Link` (ids of the conversation; or the dialogue's state after and before it) and what is needed of it, as
   JSON, which goes to temporary storage. Nothing of the record remains in memory.
3. `assembly.py` joins linked records in the order of time, length or input, and has the format read each
   conversation (`Format.read`), as `Conversation`s. Several per record are possible.
4. `cases.py` makes the case: an id (the source's, or derived from the content), inputs and turns, numbered
   events, span ids that are derived where the source has none, attributes of OpenTelemetry. It joins
   expected outputs and labels.

A format keeps nothing from one record or conversation to the next.

What formats share:

* `events.py` makes events (`agent_message`, `tool_call`, `tool_result`, `reasoning`, `error_event`, ...). It
  leaves out what is null, parses arguments that are JSON text and marks malformed ones, treats an empty id as
  none, and reads times and tokens. A field that the source lacks is left out, never 0. Content blocks that
  are images, audio and files become digests.
* `messages.py` reads messages of every dialect, with the words of `vocabulary.py`; `responses_items.py`
  reads items, which are events without a role. A format says where its messages are.
* `dialogue.py` leaves out what a history repeats (`Dialogue.add_history`), and merges messages with one id.
  It has the base of formats whose records are a request with its answer; `provider_format.py` that of model
  providers, `message_formats.py` of lists of messages, `sessions.py` of recorders of lines.
* `span_records.py` reads spans in every encoding as one shape; `span_tree.py` puts those of a conversation
  together.
* `catalog.py` lists the formats, and those that are known and refused.
* `known_fields.py` has by format the fields that its objects have; others are said.
* `shapes.py` and the end of `assembly.py` are the net below all: what looks like a call, a result or an
  answer and is in no event is lost, and the case says so.
* `diagnostics.py`: whatever a format does not take over, it reports, with record, field and reason.

Calls and results are paired by `call_id`; without ids, by tool and order (`contracts.trace.pair_calls`). A
result needs no tool name where its id says it.
"""
