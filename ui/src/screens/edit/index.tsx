/** Create and edit a job: what is typed on the left, what saving would do on the right. */
import { useQuery } from '@tanstack/react-query'
import { useParams, useSearch } from 'wouter'
import { ApiError } from '../../api/errors'
import { getJson } from '../../api/client'
import { useMay } from '../../api/queries'
import type { JobDetail } from '../../api/types'
import { LinkButton } from '../../components/Button'
import { Empty } from '../../components/Empty'
import { ErrorNotice } from '../../components/ErrorNotice'
import { Loading } from '../../components/Loading'
import { Screen } from '../../components/Screen'
import { jobPath } from '../../lib/url'
import { Editor } from './Editor'
import { defaultCatchUp, emptyForm, formOf, type Form } from './form'
import './edit.css'

export default function Edit() {
  const { job } = useParams<{ job?: string }>()
  const search = new URLSearchParams(useSearch())
  const from = search.get('from')
  const name = job === undefined ? from : decodeURIComponent(job)
  const mayEdit = useMay('editor')
  const found = useQuery({
    queryKey: ['edit', 'job', name],
    queryFn: ({ signal }) => getJson<JobDetail>(`/jobs/${encodeURIComponent(name ?? '')}`, {}, signal),
    enabled: name !== null,
    staleTime: Infinity,
    gcTime: 0,
    refetchOnWindowFocus: false,
  })
  const title = job === undefined ? 'New job' : `Edit ${name}`
  const path = [['Jobs', '/jobs'] as const, ...(job === undefined || !name ? [] : [[name, jobPath(name)] as const])]
  if (!mayEdit) {
    return (
      <Screen title={title} path={path}>
        <Empty title="Your role does not allow changing jobs">
          <p>Ask an administrator for a token with the role editor.</p>
          <LinkButton href="/jobs">All jobs</LinkButton>
        </Empty>
      </Screen>
    )
  }
  if (name === null) return <Editor key="new" title={title} path={path} start={prefill(search)} stored={null} />
  if (found.data && !found.isFetching) {
    if (job === undefined) return <Editor key={`from ${name}`} title={title} path={path} start={duplicate(found.data)} stored={null} copyOf={found.data} />
    return <Editor key={found.data.id} title={title} path={path} start={formOf(found.data)} stored={found.data} />
  }
  const isMissing = found.error instanceof ApiError && found.error.status === 404
  return (
    <Screen title={title} path={path}>
      {isMissing ? (
        <Empty title={`No job is named ${name}`}>
          <p>It may have been deleted or renamed.</p>
          <LinkButton href="/jobs">All jobs</LinkButton>
        </Empty>
      ) : found.error ? (
        <ErrorNotice error={found.error} what="The job could not be loaded" onRetry={() => void found.refetch()} />
      ) : (
        <Loading what="the job" />
      )}
    </Screen>
  )
}

function duplicate(job: JobDetail): Form {
  const form = formOf(job)
  return { ...form, catchUp: form.catchUp === defaultCatchUp(form.schedule) ? '' : form.catchUp, name: `${form.name}-copy`.slice(0, 100), headers: form.headers.filter(({ isStored }) => !isStored) }
}

/** ?name=&schedule=&timezone=&url=&task=&description=&tag= */
function prefill(search: URLSearchParams): Form {
  const form = emptyForm()
  const text = (key: string, fallback: string) => search.get(key) ?? fallback
  return {
    ...form,
    name: text('name', form.name),
    schedule: text('schedule', form.schedule),
    timezone: text('timezone', form.timezone),
    description: text('description', form.description),
    tags: search.getAll('tag'),
    url: text('url', form.url),
    method: text('method', form.method),
    type: search.has('task') ? 'task' : search.has('function') ? 'sql' : 'http',
    task: text('task', ''),
    function: text('function', ''),
  }
}
