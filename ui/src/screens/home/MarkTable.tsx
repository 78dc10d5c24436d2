import { Link } from 'wouter'
import type { TimelineRow } from '../../api/types'
import { Outcome } from '../../components/Outcome'
import { Table, type Column } from '../../components/Table'
import { formatNumber } from '../../lib/outcome'
import { formatTime } from '../../lib/time'
import { jobPath } from '../../lib/url'
import { describeMark, pathOf } from './describe'
import { keyOf, layoutRow, type Mark } from './marks'
import type { Span } from './scale'

const MOST = 500

interface Entry {
  mark: Mark
  row: TimelineRow
}

/** The marks of the time line as a table, the newest first. */
export function MarkTable({ rows, bucketSeconds, span, zone, now }: { rows: readonly TimelineRow[]; bucketSeconds: number; span: Span; zone: string; now: number }) {
  const entries = rows.flatMap((row) => layoutRow(row, bucketSeconds, span, 1000, now).map((mark): Entry => ({ mark, row })))
  entries.sort((one, other) => other.mark.at - one.mark.at)
  const facts = ({ mark, row }: Entry) => describeMark(mark, row, zone, now)
  const columns: Column<Entry>[] = [
    { id: 'at', header: `Scheduled (${zone})`, cell: ({ mark }) => <span className="hb-nowrap">{formatTime(mark.at, zone, { now, offset: true })}</span> },
    { id: 'job', header: 'Job', cell: ({ row }) => <Link href={jobPath(row.job)} className="home-table-job">{row.job.name}</Link> },
    {
      id: 'outcome',
      header: 'Outcome',
      cell: (entry) => {
        const { fate, title } = facts(entry)
        const path = pathOf(entry.mark, entry.row)
        return path ? (
          <Link href={path}>
            <Outcome fate={fate} text={title} />
          </Link>
        ) : (
          <Outcome fate={fate} text={title} />
        )
      },
    },
    { id: 'facts', header: 'Details', hide: 'narrow', cell: (entry) => <span className="hb-muted hb-small">{facts(entry).facts.filter(([label]) => label !== 'Scheduled').map(([label, value]) => `${label.toLowerCase()} ${value}`).join(' · ')}</span> },
  ]
  return (
    <>
      <Table label="Marks of the time line" rows={entries.slice(0, MOST)} rowKey={({ mark, row }) => `${row.job.id} ${keyOf(mark)}`} columns={columns} resetKey={`${span.from} ${span.until} ${rows.map((row) => row.job.id).join()}`} />
      {entries.length > MOST && <p className="hb-muted home-more">The newest {formatNumber(MOST)} of {formatNumber(entries.length)}. Zoom in or show fewer jobs to see the others.</p>}
    </>
  )
}
