"""Every error that Tidegate raises.

TidegateError
├── ConfigError            TG-C…  exit 2  the project, a setting, or the way a command was typed
├── LedgerError            TG-L…  exit 1  the store of decisions
│   ├── VersionConflict            somebody else wrote the document first
│   ├── LedgerUnreachable
│   │   └── OutcomeUnknown         the store went away in the middle of a write
│   ├── CorruptCheckpoint
│   ├── NewerFormat                written by a newer Tidegate
│   ├── DocumentTooLarge
│   └── BadKey
├── Refused                TG-R…  exit 4  right as asked, and must not happen
│   ├── LeaseHeld
│   ├── StaleWriter                another runner took over
│   ├── WatermarkBackwards
│   ├── BelowReaderLo
│   ├── PositionBackwards
│   └── Incompatible               a schema that readers or writers of the last one could not use
├── NotComplete            TG-N…  exit 3  not there yet
│   ├── NotYetPublished
│   └── GateClosed                 a table waits for its sources
├── LakeError              TG-K…  exit 1  a lake table's log or files
│   ├── NotOurs
│   ├── LakeCorrupt
│   ├── SchemaMismatch
│   ├── LakeConflict               somebody else committed first
│   └── LakeUnavailable            transient: the place of the table does not answer, is full, or may not be written
├── SourceError            TG-S…  exit 1
│   ├── SourceUnreachable          transient
│   └── SourceChanged              permanent: what was planned is no longer there as it was
├── SinkError              TG-D…  exit 1
│   ├── SinkUnavailable            transient
│   └── SinkRejected               permanent
├── TransformFailed        TG-P…  exit 1
├── RefreshFailed          TG-T…  exit 1
│   └── InputGone                  a version that an advance speaks of was vacuumed away
├── WatermarkError         TG-W…  exit 2  wrong use of a watermark or tracker
│   ├── UnknownPartition
│   ├── SourceNotFound
│   ├── InvalidPartition
│   ├── PartitionExists
│   └── MixedKinds
└── SparkUnavailable       TG-X…  exit 1

The text of an error is built from its fields. It has one line of what and where, and one of what
to do (`hint`); the code never changes once released.
"""

from __future__ import annotations

from typing import ClassVar


class TidegateError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "TG-000"
    exit_code: ClassVar[int] = 1
    #: Format of the message over the fields; `hint` likewise.
    text: ClassVar[str] = "{what}"
    advice: ClassVar[str] = ""

    def __init__(self, **fields: object) -> None:
        self.fields = fields
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """What went wrong, and where, in one line."""
        return self.text.format_map(self.fields)

    @property
    def hint(self) -> str:
        """What to do about it, in one line; a `hint` among the fields wins."""
        return str(self.fields["hint"]) if "hint" in self.fields else self.advice.format_map(self.fields)


class ConfigError(TidegateError):
    """The project or the command line says something that cannot be."""

    code = "TG-C001"
    exit_code = 2
    text = "{where}: {what}"


class LedgerError(TidegateError):
    """The ledger could not do what was asked."""

    code = "TG-L001"


class LedgerUnreachable(LedgerError):
    """The ledger's store does not answer."""

    code = "TG-L002"
    text = "the ledger at {url} cannot be used: {why}"
    advice = "check the `ledger:` of tidegate.yml and that the place exists and may be written"


class VersionConflict(LedgerError):
    """Somebody else wrote the document first; nothing was written."""

    code = "TG-L003"
    text = "{key} is at version {actual}, not {expected}: somebody else wrote it first"
    advice = "read it again and decide again"


class CorruptCheckpoint(LedgerError):
    """A stored document does not verify."""

    code = "TG-L004"
    text = "version {version} of {key} does not verify: {why}; the newest good version is {newest_good}"
    advice = "tidegate ledger check tells of all; with --recover it goes on from the newest good versions"


class BadKey(LedgerError):
    """A key that no store accepts."""

    code = "TG-L005"
    text = "{key!r} cannot be a key: {why}"
    advice = "use letters, digits, and . _ - + = @ : , parts separated by /"


class OutcomeUnknown(LedgerUnreachable):
    """The store went away in the middle of a write, and could not be asked again."""

    code = "TG-L006"
    text = "the ledger at {url} went away while {key} was written: {why}"
    advice = "start again once it answers; what was written then is found, and what was not is done again"


class NewerFormat(LedgerError):
    """A stored document was written by a newer Tidegate."""

    code = "TG-L007"
    text = "version {version} of {key} cannot be read: {why}; the newest good version is {newest_good}"
    advice = "install the Tidegate that wrote it, or a newer one"


class DocumentTooLarge(LedgerError):
    """A document is larger than any store takes."""

    code = "TG-L008"
    text = "{key} would have {size} bytes; a document has at most {limit}"


class Refused(TidegateError):
    """Understood, and must not happen."""

    code = "TG-R001"
    exit_code = 4


class LeaseHeld(Refused):
    """Another runner owns it and lives."""

    code = "TG-R002"
    text = "{name} is run by {owner}"
    advice = "stop that runner first (tidegate stop {name}), or wait for it to end"


class StaleWriter(Refused):
    """Another runner took over; what this one was about to write was refused."""

    code = "TG-R003"
    text = "another runner took over {name} (token {current}, ours {held})"
    advice = "this run stops and nothing is lost; the other runner goes on"


class WatermarkBackwards(Refused):
    """A watermark only rises."""

    code = "TG-R004"
    text = "the watermark of {source} is at {current}; it cannot go back to {asked}"
    advice = "advance it to {current} or later"


class BelowReaderLo(Refused):
    """What was asked for has been given up for pruning."""

    code = "TG-R005"
    text = "{name} is readable from {reader_lo}; {asked} is no longer guaranteed to be there"
    advice = "read at {reader_lo} or later"


class PositionBackwards(Refused):
    """A stored position only moves forward."""

    code = "TG-R006"
    text = "{name} cannot move to that position: {why}"
    advice = "roll it back to an older version, or delete it first"


class Incompatible(Refused):
    """A schema breaks the rule that its source and table have."""

    code = "TG-R007"
    text = "the schema of {table} in {source} is not {rule} compatible with version {version}: {why}"
    advice = "change it compatibly, or register it with the rule `none`"


class NotComplete(TidegateError):
    """The data is not complete to the point asked for."""

    code = "TG-N001"
    exit_code = 3
    text = "{name} is complete to {current}, not yet to {asked}"
    advice = "wait for it: tidegate wait {name} --until {asked}"


class NotYetPublished(NotComplete):
    """Nothing has ever been published under this name."""

    code = "TG-N002"
    text = "{name} has nothing published yet"
    advice = "run it first: tidegate run --once; tidegate explain {name} tells what it waits for"


class GateClosed(NotComplete):
    """A table may not be refreshed now."""

    code = "TG-N003"
    text = "{table} was not refreshed: {reason}"
    advice = "wait for it, or see tidegate explain {table}; tidegate refresh {table} --force does not wait"


class LakeError(TidegateError):
    """A lake table cannot be read or written."""

    code = "TG-K001"
    text = "lake table {table}: {what}"


class NotOurs(LakeError):
    """The folder, or its newest commit, was not made by Tidegate."""

    code = "TG-K002"
    text = "lake table {table}: {what}"
    advice = "choose another `table:` or `lake:`, or move that folder away; Tidegate writes only tables of its own"


class LakeCorrupt(LakeError):
    """The log of a lake table does not parse."""

    code = "TG-K003"


class SchemaMismatch(LakeError):
    """The rows do not have the table's columns."""

    code = "TG-K004"
    text = "lake table {table}: {what}"
    advice = "make the transform give the table's columns, or start a new table"


class LakeConflict(LakeError):
    """Somebody with the same right committed first; nothing was committed."""

    code = "TG-K005"
    text = "lake table {table}: version {version} was committed by somebody else first"
    advice = "look at the table again and decide again"


class LakeUnavailable(LakeError):
    """Transient: the place of the table cannot be read or written now."""

    code = "TG-K006"
    text = "lake table {table}: {what}"
    advice = "check that the place of the `lake:` can be reached and written, and has room; then start again"


class SourceError(TidegateError):
    """A source cannot be read."""

    code = "TG-S001"
    text = "source {source}: {what}"


class SourceUnreachable(SourceError):
    """Transient: the source does not answer now."""

    code = "TG-S002"


class SourceChanged(SourceError):
    """Permanent: what was planned is no longer there as it was."""

    code = "TG-S003"


class SinkError(TidegateError):
    """A sink did not take a delivery."""

    code = "TG-D001"
    text = "sink {sink}: {what}"


class SinkUnavailable(SinkError):
    """Transient: try again later."""

    code = "TG-D002"


class SinkRejected(SinkError):
    """Permanent: trying again will not help."""

    code = "TG-D003"


class TransformFailed(TidegateError):
    """The user's transform raised."""

    code = "TG-P001"
    text = "the transform of {pipeline} failed on checkpoints {first} to {last}: {why}"


class RefreshFailed(TidegateError):
    """A table's query failed."""

    code = "TG-T001"
    text = "the refresh of {table} failed: {why}"


class InputGone(RefreshFailed):
    """The version of an external table that its watermark speaks of is not there any more."""

    code = "TG-T002"
    text = "the refresh of {table} failed: version {version} of {input}, which its watermark speaks of, is gone"
    advice = "advance {input} again at a version that is there: tidegate advance {input} VALUE --version V"


class WatermarkError(TidegateError):
    """A watermark or the tracker was used wrongly."""

    code = "TG-W001"
    exit_code = 2


class UnknownPartition(WatermarkError):
    """The partition was never registered."""

    code = "TG-W002"
    text = "partition {partition} of source {source} is not registered"
    advice = "register it first"


class SourceNotFound(WatermarkError):
    """The source was never registered."""

    code = "TG-W003"
    text = "source {source} is not registered"
    advice = "register it first"


class InvalidPartition(WatermarkError):
    """The partition is out of the range of its source."""

    code = "TG-W004"
    text = "source {source} has {count} partitions; there is no partition {partition}"
    advice = "check the partition count"


class PartitionExists(WatermarkError):
    """The partition is registered already."""

    code = "TG-W005"
    text = "partition {partition} of source {source} is registered already"


class MixedKinds(WatermarkError):
    """A timestamp was compared with an integer."""

    code = "TG-W006"
    text = "{where} mixes timestamp and integer watermarks ({what})"
    advice = "give all members of a group the same kind of watermark"


class SparkUnavailable(TidegateError):
    """Spark cannot be started or reached."""

    code = "TG-X001"
    text = "Spark cannot be used: {why}"
