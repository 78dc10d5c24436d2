import { Screen } from '../../components/Screen'

export default function Failed() {
  return (
    <Screen title="Failed runs">
      <p className="hb-muted">Failed runs by error, to replay or to discard.</p>
    </Screen>
  )
}
